package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/server"
)

// newKey returns the command `carillon key`.
func newKey(a app) *cobra.Command {
	return newGroup("key", "API keys, for nodes that run with --auth keys", newKeyCreate(a), newKeyGenerate(a),
		newKeyList(a), newKeyRevoke(a), newKeyRotate(a))
}

// keyCreate holds the flags of `carillon key create`.
type keyCreate struct {
	connection
	grants  []string
	queues  []string
	admin   bool
	note    string
	expires string
	store   string
}

// newKeyCreate returns the command `carillon key create`.
func newKeyCreate(a app) *cobra.Command {
	var k keyCreate
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an API key, and show it once",
		Long: `Make an API key, and show it once: the store keeps only a hash of it. The roles are viewer, worker, producer, operator and
admin; a namespace that ends in "*" is all that begin so, and "*" is all of them.

The first key of a store is made with --store, while no node runs on it; a store that is not there yet is created.`,
		Example: `carillon key create --admin --store pebble:/var/lib/carillon
carillon key create --grant producer=shop --grant viewer=shop-* --expires 2160h --note "the shop's backend"
carillon key create --grant worker=shop --queue invoices --queue mails`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return k.run(cmd, a) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringArrayVar(&k.grants, "grant", nil, "`role=namespace`, or several namespaces with commas between; repeatable")
	cmd.Flags().StringArrayVar(&k.queues, "queue", nil,
		"`queue` whose runs the role worker may take; repeatable; default all queues of its namespaces")
	cmd.Flags().BoolVar(&k.admin, "admin", false, "the same as --grant admin=*")
	cmd.Flags().StringVar(&k.note, "note", "", "a note for people")
	cmd.Flags().StringVar(&k.expires, "expires", "", "`when` it ends: in 2160h, or at 2027-01-31T00:00:00Z; default never")
	cmd.Flags().StringVar(&k.store, "store", "", "`url` of a store on which no node runs, as of serve; default a node is asked")
	k.addServer(cmd)
	return cmd
}

// asked returns what the flags ask for.
func (k *keyCreate) asked(now time.Time) (carillon.NewKey, error) {
	n := carillon.NewKey{Note: k.note}
	if k.admin {
		n.Grants = append(n.Grants, carillon.AccessGrant{Role: carillon.RoleAdmin, Namespaces: []string{"*"}})
	}
	worker := false
	for _, text := range k.grants {
		role, namespaces, ok := strings.Cut(text, "=")
		if !ok || namespaces == "" {
			return n, usagef("--grant: %q is not role=namespace, such as producer=shop", clip(text, 40))
		}
		g := carillon.AccessGrant{Role: carillon.Role(role), Namespaces: strings.Split(namespaces, ",")}
		if g.Role == carillon.RoleWorker {
			g.Queues, worker = k.queues, true
		}
		n.Grants = append(n.Grants, g)
	}
	if len(n.Grants) == 0 {
		return n, usagef("--grant: what may the key do? For example --grant producer=shop, or --admin")
	}
	if len(k.queues) > 0 && !worker {
		return n, usagef("--queue: only the role worker has queues; give --grant worker=NAMESPACE, or leave it out")
	}
	if k.expires != "" {
		at, err := time.Parse(time.RFC3339, k.expires)
		if d, bad := time.ParseDuration(k.expires); bad == nil {
			at, err = now.Add(d), nil
		}
		if err != nil {
			return n, usagef("--expires: %q is neither a duration such as 2160h nor a time such as 2027-01-31T00:00:00Z",
				clip(k.expires, 40))
		}
		n.Expires = at
	}
	if err := n.Validate(now); err != nil {
		return n, usagef("%s", err)
	}
	return n, nil
}

func (k *keyCreate) run(cmd *cobra.Command, a app) error {
	n, err := k.asked(time.Now())
	if err != nil {
		return err
	}
	if k.store == "" {
		return k.ask(a, func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			created, err := node.CreateKey(ctx, n)
			return createdAnswer(&created), err
		})(cmd, nil)
	}
	if cmd.Flags().Changed("server") || cmd.Flags().Changed("context") {
		return usagef("--store: no node is asked; leave out --server and --context")
	}
	if err := lasting("store", k.store); err != nil {
		return err
	}
	created, err := server.CreateKey(cmd.Context(), k.store, n)
	if err != nil {
		return err
	}
	return a.answer(cmd, createdAnswer(&created))
}

// createdAnswer shows a new key: the key alone on standard output.
func createdAnswer(c *carillon.CreatedKey) answer {
	return answer{message: &pb.CreateKeyResponse{Key: wire.KeyToProto(&c.Key), Secret: c.Secret},
		text: c.Secret + "\n",
		note: fmt.Sprintf("This is the key %s. It is shown this once.", c.Key.ID)}
}

// newKeyGenerate returns the command `carillon key generate`.
func newKeyGenerate(a app) *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Print a new API key, for serve --bootstrap-key-file",
		Long: `Print a new API key that no store knows yet. A file with it is for serve --bootstrap-key-file, which makes it the first key
of a store. No node is asked.`,
		Example: `(umask 077; carillon key generate > admin.key)
carillon serve --store pebble:/var/lib/carillon --auth keys --bootstrap-key-file admin.key`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, key, _ := access.Mint()
			return a.answer(cmd, answer{message: &pb.CreateKeyResponse{Key: &pb.AccessKey{Id: id}, Secret: key},
				text: key + "\n"})
		},
	}
}

// keyList holds the flags of `carillon key list`.
type keyList struct {
	connection
	listing
}

// newKeyList returns the command `carillon key list`.
func newKeyList(a app) *cobra.Command {
	var l keyList
	cmd := l.command(a, "list", "List the API keys of namespaces that the caller is an admin of", nil)
	cmd.Aliases = []string{"ls"}
	l.listing.add(cmd, a, &l.connection, keyColumns.words(), l.list)
	return cmd
}

func (l *keyList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	all, rest, err := collectSorted(l.listing, keyColumns,
		func(token string, size int) ([]carillon.AccessKey, string, error) {
			page, err := node.ListKeys(ctx, carillon.KeyQuery{PageToken: token, PageSize: size})
			return page.Keys, page.NextPageToken, err
		})
	return answer{message: wire.KeyPageToProto(carillon.KeyPage{Keys: all, NextPageToken: rest}),
		grid: keyColumns.grid(all), note: moreNote(len(all), rest),
		names: namesOf(all, func(k *carillon.AccessKey) string { return k.ID })}, err
}

var keyColumns = rowColumns(keyRow, "ID", "GRANTS", "CREATED", "CREATOR", "EXPIRES", "OLD SECRET UNTIL",
	"LAST USED", "NOTE")

func keyRow(k *carillon.AccessKey) []string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return dash("")
		}
		return t.UTC().Format(time.RFC3339)
	}
	var grants []string
	for _, g := range k.Grants {
		text := string(g.Role) + "=" + strings.Join(g.Namespaces, ",")
		if len(g.Queues) > 0 {
			text += " (" + strings.Join(g.Queues, ",") + ")"
		}
		grants = append(grants, text)
	}
	return []string{k.ID, strings.Join(grants, " "), at(k.Created), dash(k.Creator), at(k.Expires),
		at(k.OverlapEnds), at(k.LastUsed), dash(k.Note)}
}

// newKeyRevoke returns the command `carillon key revoke`.
func newKeyRevoke(a app) *cobra.Command {
	var c connection
	return c.command(a, "revoke ID", "End an API key, on all nodes",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			unheard, err := node.RevokeKey(ctx, words[0])
			got := answer{message: &pb.RevokeKeyResponse{Unheard: unheard}, text: "key " + words[0] + " is revoked\n"}
			if len(unheard) > 0 {
				got.note = unconfirmed(unheard)
			}
			return got, err
		})
}

// keyRotate holds the flags of `carillon key rotate`.
type keyRotate struct {
	connection
	overlap time.Duration
}

// newKeyRotate returns the command `carillon key rotate`.
func newKeyRotate(a app) *cobra.Command {
	var r keyRotate
	cmd := r.command(a, "rotate ID", "Give an API key another secret, and show it once", r.rotate)
	cmd.Long = `Give an API key another secret, and show it once. The id, the grants and the end of the key stay. The secret before is valid for
the overlap, too, in which those who show the key change over; carillon key list shows until when. With --overlap 0 it ends at
once, on all nodes; so it does for a key that is being rotated already, of which both secrets end.`
	cmd.Example = `carillon key rotate mq2xkz4bn3uod7wy
carillon key rotate mq2xkz4bn3uod7wy --overlap 0 # the key has leaked`
	cmd.Flags().DurationVar(&r.overlap, "overlap", carillon.DefaultKeyOverlap,
		"`duration` for which the secret before is valid, too; at most 720h")
	return cmd
}

func (r *keyRotate) rotate(ctx context.Context, node *client.Client, words []string) (answer, error) {
	rotated, unheard, err := node.RotateKey(ctx, words[0], r.overlap)
	note := fmt.Sprintf("This is the key %s with another secret. It is shown this once.", rotated.Key.ID)
	if ends := rotated.Key.OverlapEnds; !ends.IsZero() {
		note += fmt.Sprintf(" The one before is valid until %s.", ends.UTC().Format(time.RFC3339))
	}
	if len(unheard) > 0 {
		note += " " + unconfirmed(unheard)
	}
	return answer{message: wire.RotatedKeyToProto(&rotated, unheard), text: rotated.Secret + "\n",
		note: note}, err
}

// unconfirmed says which nodes do not know of a change yet.
func unconfirmed(nodes []string) string {
	return "These nodes have not confirmed it; they follow within a second if the store answers them: " +
		strings.Join(nodes, ", ")
}
