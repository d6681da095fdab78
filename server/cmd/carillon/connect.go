package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// connection holds the flags of every command that asks a node something.
type connection struct {
	reach
	namespace string
	wait      time.Duration
}

// add adds the flags to cmd. The environment may set their defaults.
func (c *connection) add(cmd *cobra.Command) {
	c.addNamespace(cmd)
	c.addServer(cmd)
}

func (c *connection) addNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", carillon.DefaultNamespace,
		"`namespace` of the jobs; environment CARILLON_NAMESPACE")
	c.completeNamespace(cmd)
}

// addServer adds the flags that do not concern a namespace, and -o.
func (c *connection) addServer(cmd *cobra.Command) {
	c.addReach(cmd)
	c.addWait(cmd)
}

func (c *connection) addWait(cmd *cobra.Command) {
	section(cmd.Flags(), sectionConnection, func(flags *pflag.FlagSet) {
		flags.DurationVar(&c.wait, "wait", 30*time.Second, "how long to wait for an answer")
	})
}

// addReach adds the flags of a command that does not end with an answer, and -o.
func (c *connection) addReach(cmd *cobra.Command) {
	c.addPlainReach(cmd)
	addOutput(cmd)
}

// addPlainReach adds the flags that say where the node is and how it is reached.
func (c *connection) addPlainReach(cmd *cobra.Command) {
	c.reach.add(cmd.Flags(), "gRPC `address` of a node, or several with commas between; environment CARILLON_SERVER")
	section(cmd.Flags(), sectionConnection, func(flags *pflag.FlagSet) {
		flags.BoolVar(&c.proxy, "proxy", false, "reach the node by the proxy that HTTPS_PROXY names; default directly")
	})
}

// resolve sets from the environment what the command line does not.
func (c *connection) resolve(cmd *cobra.Command) {
	c.reach.resolve(cmd.Flags())
	takeEnvironment(cmd.Flags(), map[string]*string{"namespace": &c.namespace})
	said := cmd.Flags().Changed("namespace") || !c.byFlag && os.Getenv(envName("namespace")) != ""
	if c.namespaceOf != "" && !said {
		c.namespace = c.namespaceOf
	}
}

// call connects to the node and calls f within the time that the user is ready to wait.
func (c *connection) call(cmd *cobra.Command, f func(ctx context.Context, node *client.Client) error) error {
	c.resolve(cmd)
	node, err := c.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), c.wait)
	defer cancel()
	done := newProgress(cmd.ErrOrStderr()).wait("waiting for " + c.server + " …")
	defer done()
	return c.explain(f(ctx, node))
}

// question asks a node one thing.
type question func(ctx context.Context, node *client.Client, words []string) (answer, error)

// command returns a command that asks a node one thing. use has a word for each argument.
func (c *connection) command(a app, use, short string, q question) *cobra.Command {
	n := strings.Count(use, " ")
	cmd := &cobra.Command{Use: use, Short: short, Args: arguments(n, n), RunE: c.ask(a, q)}
	c.addServer(cmd)
	return cmd
}

// inNamespace returns a command that asks a node one thing about a namespace.
func (c *connection) inNamespace(a app, use, short string, q question) *cobra.Command {
	cmd := c.command(a, use, short, q)
	c.addNamespace(cmd)
	return cmd
}

// ask returns the action of a command that asks a node one thing and prints the answer.
func (c *connection) ask(a app, q question) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, words []string) error {
		var got answer
		err := c.call(cmd, func(ctx context.Context, node *client.Client) (err error) {
			got, err = q(ctx, node, words)
			return err
		})
		if err != nil {
			return err
		}
		return a.answer(cmd, got)
	}
}

// explain adds which node did not answer, and how to choose another. Errors that a node returned stay as they
// are.
func (c *connection) explain(err error) error {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || !wire.Unanswered(e) {
		return err
	}
	explained := *e
	switch e.Kind {
	case carillon.Unavailable:
		explained.Message = fmt.Sprintf("no answer from %s; start a node with `carillon dev`, or give --server (%s)",
			clip(c.server, 80), e.Message)
		if addr := c.listening(context.Background()); addr != "" {
			explained.Message = c.unheard(context.Background(), addr, e)
		}
	case carillon.InvalidArgument: // that node does not know the call
		explained.Kind, explained.Message = carillon.Unavailable, notGRPC(clip(c.server, 80), e)
	case carillon.DeadlineExceeded:
		explained.Message = fmt.Sprintf("no answer from %s within %v", clip(c.server, 80), c.wait)
	case carillon.ResourceExhausted:
		explained.Message = "the request or its answer is larger than one message may be; send or ask for less at once"
	}
	return &explained
}

func notGRPC(addr string, e *carillon.Error) string {
	return fmt.Sprintf("something listens at %s, but it does not answer as the gRPC address of a node does; "+
		"is it the address for HTTP? That for gRPC is port %s unless --grpc says otherwise (%s)", addr,
		client.DefaultPort, e.Message)
}

// listening returns the first of the addresses that accepts connections, even if it is no node; "" if none
// does.
func (c *connection) listening(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, addr := range client.Addresses(c.server) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close() // it was not used
			return addr
		}
	}
	return ""
}

// key returns the key of a job of the namespace.
func (c *connection) key(name string) carillon.Key {
	return carillon.Key{Namespace: c.namespace, Name: name}
}
