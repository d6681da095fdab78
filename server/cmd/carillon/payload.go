package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/server"
)

// newPayload returns the command `carillon payload`.
func newPayload(a app) *cobra.Command {
	return newGroup("payload", "Store large payloads apart from their jobs", newPayloadPut(a), newPayloadGet(a),
		newPayloadCollect(a))
}

// newPayloadPut returns the command `carillon payload put`.
func newPayloadPut(a app) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, "put FILE", "Store a file as a payload, and print its reference",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			ref, err := uploadFile(ctx, node, c.namespace, words[0], a.in)
			return answer{message: wire.StoredToProto(ref), text: ref.String() + "\n"}, err
		})
	cmd.Long = `Store a file, or standard input if it is -, in the payload store of the nodes (carillon serve --payload-store), and print
its reference: DAY/SHA256/SIZE. Jobs of the namespace are put with it by --payload. What no job and no run refers to is removed
after three days. Large files need a longer --wait.`
	cmd.Example = `carillon payload put scene.bin
carillon job put render --worker render --payload ` + exampleRef
	return cmd
}

// exampleRef is a reference in examples.
const exampleRef = "2026-11-28/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08/4"

// newPayloadGet returns the command `carillon payload get`.
func newPayloadGet(a app) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "get REFERENCE",
		Short: "Write a payload to standard output",
		Long: `Write the bytes of a reference of the namespace to standard output. The command fails, after some of them were written, if
they are not those that were stored.`,
		Example: "carillon payload get " + exampleRef,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			c.resolve(cmd)
			ref, err := carillon.ParsePayloadRef(words[0])
			if err != nil {
				return err
			}
			return c.call(cmd, func(ctx context.Context, node *client.Client) error {
				return download(ctx, node, c.namespace, ref, a.raw)
			})
		},
	}
	c.addServer(cmd)
	c.addNamespace(cmd)
	return cmd
}

func download(ctx context.Context, node carillon.Payloads, namespace string, ref carillon.PayloadRef,
	to io.Writer) error {
	from, err := node.GetPayload(ctx, namespace, ref)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, from.Close())
}

// newPayloadCollect returns the command `carillon payload collect`.
func newPayloadCollect(a app) *cobra.Command {
	var c connection
	cmd := c.command(a, "collect", "Remove payloads that no job and no run refers to",
		func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			did, err := node.CollectPayloads(ctx)
			return answer{message: wire.CollectionToProto(did), text: fmt.Sprintf(
				"%d payloads are old enough, of which %d were not used and are removed, with %d bytes\n",
				did.Examined, did.Removed, did.Bytes)}, err
		})
	cmd.Long = `Have a node remove, now, what it removes once a day: payloads that were stored at least three days ago and that no job and
no run refers to. It reads all jobs and finished runs; where there are many, this needs a longer --wait.`
	return cmd
}

// uploadFile stores a file, or standard input if it is "-".
func uploadFile(ctx context.Context, node carillon.Payloads, namespace, file string,
	in io.Reader) (carillon.PayloadRef, error) {
	if file == "-" {
		return node.PutPayload(ctx, namespace, in)
	}
	f, err := os.Open(file)
	if err != nil {
		return carillon.PayloadRef{}, usagef("%v", err)
	}
	defer f.Close()
	return node.PutPayload(ctx, namespace, f)
}

// dataFile is the flag --data-file: a payload of any size and form.
type dataFile string

func (d *dataFile) add(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(d), "data-file", "",
		"`file` with the payload, any bytes, - for standard input; one above 1 MiB is stored apart, as carillon payload put does")
	exclusive(cmd, "data", "data-file")
	exclusive(cmd, "data", "payload")
	exclusive(cmd, "data-file", "payload")
}

// sentWithJob is the largest file that is sent with its job.
const sentWithJob = 1 << 20

// load sets the data of a job.
func (d *dataFile) load(ctx context.Context, node carillon.Payloads, j *carillon.Job, in io.Reader) error {
	if *d == "" {
		return nil
	}
	if *d != "-" {
		f, err := os.Open(string(*d))
		if err != nil {
			return usagef("--data-file: %v", err)
		}
		defer f.Close()
		in = f
	}
	begin, err := io.ReadAll(io.LimitReader(in, sentWithJob+1))
	if err != nil {
		return usagef("--data-file: %v", err)
	}
	if j.Data.Bytes, j.Data.Ref = begin, nil; len(begin) <= sentWithJob {
		return nil
	}
	ref, err := node.PutPayload(ctx, j.Namespace, io.MultiReader(bytes.NewReader(begin), in))
	j.Data.Bytes, j.Data.Ref = nil, &ref
	return err
}

// payloadFlag is the flag --payload of jobs and triggers.
func payloadFlag() *jobFlag {
	return value("payload", "payload", "reference", "payload that is stored apart, as carillon payload put has printed it",
		func(j *carillon.Job) **carillon.PayloadRef { return &j.Data.Ref },
		func(s string) (*carillon.PayloadRef, error) {
			ref, err := carillon.ParsePayloadRef(s)
			return &ref, err
		})
}

// nodePayloads are the flags of a node about payloads.
type nodePayloads struct {
	server.Payloads
}

func (p *nodePayloads) add(flags *pflag.FlagSet) {
	flags.StringVar(&p.Store, "payload-store", "",
		"`url` of a place for large payloads, the same for all nodes: file:DIR, s3://…, gs://…, azblob://… or postgres://…; default none")
	flags.IntVar(&p.Above, "payload-above", server.DefaultPayloadAbove,
		"most `bytes` of data that stay with their job; more is kept in the payload store; 0 is none")
	flags.Int64Var(&p.Max, "max-stored-payload", carillon.DefaultStoredPayload,
		"most `bytes` of a payload in the payload store")
}

// config returns what the flags say; nil: there is no payload store.
func (p *nodePayloads) config(flags *pflag.FlagSet) (*server.Payloads, error) {
	if p.Store == "" {
		for _, name := range []string{"payload-above", "max-stored-payload"} {
			if f := flags.Lookup(name); f != nil && f.Changed {
				return nil, usagef("--%s: it is about a payload store: give --payload-store, or leave it out", name)
			}
		}
		return nil, nil
	}
	c := p.Payloads
	switch {
	case c.Above < 0:
		return nil, usagef("--payload-above: %d is negative; give 0 to keep no data with its job", c.Above)
	case c.Above == 0:
		c.Above = -1 // 0 is the default in a configuration
	}
	if c.Max < 1 {
		return nil, usagef("--max-stored-payload: %d is not above 0", c.Max)
	}
	return &c, nil
}
