package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/server"
)

// addAudit adds the flags about what is recorded of calls; preset says what is if they are not given.
func addAudit(flags *pflag.FlagSet, c *server.Config, preset string) {
	flags.StringVar(&c.Audit.To, "audit", "",
		"`where` it is recorded who makes which calls: off; log, lines of the log; or store, in the store, chained by hash, and in the log; "+
			preset)
	flags.DurationVar(&c.Audit.Keep, "audit-keep", 0,
		fmt.Sprintf("how long entries of --audit store are kept; default %dh", int(partition.DefaultAuditKeep/time.Hour)))
}

// newAudit returns the command `carillon audit`.
func newAudit(a app) *cobra.Command {
	return newGroup("audit", "Who has done what, for nodes that run with --audit store", newAuditList(a), newAuditVerify(a))
}

// auditList holds the flags of `carillon audit list`.
type auditList struct {
	connection
	paging
	query        carillon.AuditQuery
	since, until string
}

// newAuditList returns the command `carillon audit list`.
func newAuditList(a app) *cobra.Command {
	var l auditList
	cmd := l.command(a, "list", "List what was recorded of calls, newest first", l.list)
	cmd.Aliases = []string{"ls"}
	cmd.Example = `carillon audit list --namespace shop --since -24h
carillon audit list --principal "key 7f3k*" --action DeleteJob -o json`
	flags := cmd.Flags()
	flags.StringVar(&l.query.Namespace, "namespace", "", "only of this `namespace`; default all, and what is of none")
	flags.StringVar(&l.query.Principal, "principal", "", "only of this `caller`, such as \"key ID\"; how names begin, if it ends in *")
	flags.StringVar(&l.query.Action, "action", "", "only calls of this `name`, such as PutJob")
	flags.StringVar(&l.query.Outcome, "outcome", "",
		"only calls that ended so: ok, begun, unknown, or the `kind` of an error, such as permission_denied")
	flags.StringVar(&l.since, "since", "", "only from this `time` on, or as long ago as -24h")
	flags.StringVar(&l.until, "until", "", "only before this `time`, or so long ago")
	l.paging.add(cmd)
	return cmd
}

func (l *auditList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	now := time.Now()
	var err error
	if l.query.Since, err = flagInstant("since", l.since, now); err != nil {
		return answer{}, err
	}
	if l.query.Until, err = flagInstant("until", l.until, now); err != nil {
		return answer{}, err
	}
	type entries = []carillon.AuditEntry
	all, rest, err := collect(l.paging, func(token string, size int) (entries, string, error) {
		q := l.query
		q.PageToken, q.PageSize = token, size
		page, err := node.ListAudit(ctx, q)
		return page.Entries, page.NextPageToken, err
	})
	columns := []string{"TIME", "PRINCIPAL", "ADDRESS", "ACTION", "NAMESPACE", "RESOURCE", "OUTCOME", "FIELDS"}
	got := answer{message: wire.AuditPageToProto(carillon.AuditPage{Entries: all, NextPageToken: rest}),
		text: table(columns, all, auditRow)}
	if rest != "" {
		got.note = fmt.Sprintf("These are the newest %d; --limit 0 shows all.", len(all))
	}
	return got, err
}

func auditRow(e *carillon.AuditEntry) []string {
	outcome := e.Outcome
	if e.LeftOut > 0 {
		outcome += fmt.Sprintf(" (%d before were left out)", e.LeftOut)
	}
	return []string{e.Time.UTC().Format(time.RFC3339), dash(e.Principal), dash(e.Address), dash(e.Action),
		dash(e.Namespace), dash(e.Resource), outcome, dash(strings.Join(e.Fields, ","))}
}

// auditVerify holds the flags of `carillon audit verify`.
type auditVerify struct {
	connection
	heads []string
	file  string
}

// errBrokenChain is the command's error if a chain is broken.
var errBrokenChain = errors.New("what was recorded has been changed or is not whole")

// newAuditVerify returns the command `carillon audit verify`.
func newAuditVerify(a app) *cobra.Command {
	var v auditVerify
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Examine the chains of what was recorded, and name the first entry that is wrong",
		Long: `Read all entries, and compare each with the hash that the next one has of it, and the last one with the record of its
chain. The first entry of each chain that was changed, removed or put elsewhere is named.

Who can write to the store can rewrite a whole chain, which nothing in the store shows. To find that out, note the heads
that this command prints where he cannot write, and give them later with --head or --heads-file. The lines of the log have
chain, seq and hash of each entry: a line is the head CHAIN:SEQ:HASH.

Exit codes: 0 nothing is wrong; 1 a chain is broken, or the node could not answer.`,
		Example: `carillon audit verify > heads.txt
carillon audit verify --heads-file heads.txt`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd, a) },
	}
	v.addServer(cmd)
	cmd.Flags().StringArrayVar(&v.heads, "head", nil, "`CHAIN:SEQ:HASH` that was noted earlier; repeatable")
	cmd.Flags().StringVar(&v.file, "heads-file", "", "`file` of heads: what this command has printed earlier; - is standard input")
	return cmd
}

func (v *auditVerify) run(cmd *cobra.Command, a app) error {
	texts := v.heads
	if v.file != "" {
		more, err := headsIn(v.file, cmd.InOrStdin())
		if err != nil {
			return err
		}
		texts = append(texts, more...)
	}
	heads := make([]carillon.AuditHead, len(texts))
	for i, text := range texts {
		var err error
		if heads[i], err = carillon.ParseAuditHead(text); err != nil {
			return usagef("--head: %q is none; one is CHAIN:SEQ:HASH, as this command prints it", clip(text, 40))
		}
	}
	broken := 0
	if err := v.ask(a, func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
		all, err := node.VerifyAudit(ctx, heads)
		var b strings.Builder
		entries := uint64(0)
		for i := range all {
			c := &all[i]
			entries += c.Entries
			if c.Broken != "" {
				broken++
				fmt.Fprintf(&b, "# chain %s of partition %d is broken: %s\n", c.Chain, c.Partition, c.Broken)
			} else if c.Seq > 0 {
				b.WriteString(c.String() + "\n")
			}
		}
		note := strconv.FormatUint(entries, 10) + " entries were read."
		return answer{message: wire.AuditChainsToProto(all), text: b.String(), note: note}, err
	})(cmd, nil); err != nil {
		return err
	}
	if broken > 0 {
		return errBrokenChain
	}
	return nil
}

// headsIn reads heads from a file, one in a line; lines that begin with # say something else.
func headsIn(name string, standard io.Reader) (heads []string, err error) {
	in := standard
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("--heads-file: %v", err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			heads = append(heads, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, usagef("--heads-file: %v", err)
	}
	return heads, nil
}
