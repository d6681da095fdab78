package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon/client"
)

// place is where commands find nodes, and how: what a context says. Empty fields say nothing.
type place struct {
	Server     string `yaml:"server" json:"server"`
	Namespace  string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	CA         string `yaml:"ca,omitempty" json:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty" json:"cert,omitempty"`
	Key        string `yaml:"key,omitempty" json:"key,omitempty"`
	ServerName string `yaml:"server_name,omitempty" json:"server_name,omitempty"`
	TokenFile  string `yaml:"token_file,omitempty" json:"token_file,omitempty"`
}

// contexts are what the file of contexts holds.
type contexts struct {
	Current  string            `yaml:"current,omitempty"`
	Contexts map[string]*place `yaml:"contexts,omitempty"`
}

// contextsFile returns where the contexts of this user are.
func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "carillon", "contexts.yaml"), nil
}

// goTypes removes from the library's errors what nobody knows who has written the file.
var goTypes = strings.NewReplacer(" in type main.place", "", " in type main.contexts", "",
	"unmarshal errors:\n  ", "", "field ", "key ", "\n  ", "; ")

// readContexts reads the file of contexts; one that is not there has none.
func readContexts() (*contexts, error) {
	c := &contexts{Contexts: map[string]*place{}}
	path, err := contextsFile()
	if err != nil {
		return c, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	defer file.Close()
	d := yaml.NewDecoder(file)
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) { // which is of an empty file
		return c, fmt.Errorf("%s: %s", path, goTypes.Replace(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	for name, p := range c.Contexts {
		if p == nil || p.Server == "" {
			return c, fmt.Errorf("%s: context %q has no server", path, name)
		}
	}
	if c.Contexts == nil {
		c.Contexts = map[string]*place{}
	}
	return c, nil
}

// write replaces the file at once.
func (c *contexts) write() error {
	path, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "contexts-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(path)) // or the file of before could be back after a power failure
}

// get returns a context.
func (c *contexts) get(name string) (*place, error) {
	if p := c.Contexts[name]; p != nil {
		return p, nil
	}
	return nil, usagef("there is no context %q%s", clip(name, 40),
		hint("; did you mean %q?", name, slices.Collect(maps.Keys(c.Contexts))))
}

// newContext returns the command `carillon context`.
func newContext(a app) *cobra.Command {
	cmd := newGroup("context", "Remember where nodes are, and how they are reached", newContextList(a),
		newContextUse(a), newContextSet(a), newContextDelete(a))
	cmd.Long = `Remember where nodes are, and how they are reached. A context has a name, the address of a node, and what --namespace,
--ca, --cert, --key, --server-name and --token-file would say. The file is carillon/contexts.yaml in the user's folder for
configuration, $XDG_CONFIG_HOME or ~/.config; it holds paths of keys, not keys.

Commands use the context that --context names, or without --server that which CARILLON_CONTEXT names, and otherwise the
current one unless --server or CARILLON_SERVER says where the node is. Flags win over the context that --context names,
that wins over the environment, and the environment wins over every other context. --server and --context do not go
together. carillon bench takes no context but that of --context.`
	return cmd
}

func newContextList(a app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the contexts", Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := readContexts()
		if err != nil {
			return err
		}
		if structured(cmd) {
			return a.encode(cmd, map[string]any{"current": c.Current, "contexts": c.Contexts})
		}
		names := slices.Sorted(maps.Keys(c.Contexts))
		heading := []string{"CURRENT", "NAME", "SERVER", "NAMESPACE", "TLS"}
		return a.print(table(heading, names, func(n *string) []string {
			p, current, secure := c.Contexts[*n], "", "no"
			if *n == c.Current {
				current = "*"
			}
			if p.CA+p.Cert+p.Key+p.ServerName != "" {
				secure = "yes"
			}
			return []string{current, *n, p.Server, dash(p.Namespace), secure}
		}))
	}
	addOutput(cmd)
	return cmd
}

func newContextUse(a app) *cobra.Command {
	return contextAct(a, "use NAME", "Make a context the current one", func(c *contexts, name string) string {
		c.Current = name
		return name + " is the current context"
	})
}

// contextAct returns a command that changes something about a context that is there. change says what.
func contextAct(a app, use, short string, change func(c *contexts, name string) string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, words []string) error {
			c, err := readContexts()
			if err != nil {
				return err
			}
			if _, err := c.get(words[0]); err != nil {
				return err
			}
			said := change(c, words[0])
			if err := c.write(); err != nil {
				return err
			}
			a.sayf("%s", said)
			return nil
		}}
}

func newContextSet(a app) *cobra.Command {
	var given place
	cmd := &cobra.Command{Use: "set NAME", Short: "Make a context, or change what is given of one",
		Args: arguments(1, 1), Example: `carillon context set prod --server node-1.example --ca nodes.pem --cert me.pem --key me-key.pem
carillon context use prod`}
	flags := cmd.Flags()
	flags.StringVar(&given.Server, "server", "", "gRPC `address` of a node, or several with commas between (required at first)")
	flags.StringVarP(&given.Namespace, "namespace", "n", "", "`namespace` of the jobs; empty: none is said, as of the next four")
	flags.StringVar(&given.CA, caFlag, "", "`file` of the certificates (PEM) that nodes are verified against")
	flags.StringVar(&given.Cert, certFlag, "", "`file` of a certificate (PEM) to show to nodes")
	flags.StringVar(&given.Key, keyFlag, "", "`file` of its private key")
	flags.StringVar(&given.TokenFile, tokenFileFlag, "", "`file` of an API key to show to nodes")
	flags.StringVar(&given.ServerName, serverNameFlag, "", "`name` that the nodes' certificates must have")
	cmd.RunE = func(_ *cobra.Command, words []string) error {
		if err := checkContextName(words[0]); err != nil {
			return err
		}
		c, err := readContexts()
		if err != nil {
			return err
		}
		next := place{}
		if old := c.Contexts[words[0]]; old != nil {
			next = *old
		}
		if err := next.change(&given, flags.Changed); err != nil {
			return err
		}
		c.Contexts[words[0]] = &next
		if err := c.write(); err != nil {
			return err
		}
		a.sayf("context %s is set", words[0])
		return nil
	}
	return cmd
}

// change takes over what is given, and checks the result. Files are kept by their whole paths.
func (p *place) change(given *place, is func(flag string) bool) error {
	for _, f := range []struct {
		flag       string
		into, from *string
		file       bool
	}{{"server", &p.Server, &given.Server, false}, {"namespace", &p.Namespace, &given.Namespace, false},
		{serverNameFlag, &p.ServerName, &given.ServerName, false}, {caFlag, &p.CA, &given.CA, true},
		{certFlag, &p.Cert, &given.Cert, true}, {keyFlag, &p.Key, &given.Key, true},
		{tokenFileFlag, &p.TokenFile, &given.TokenFile, true}} {
		if !is(f.flag) {
			continue
		}
		*f.into = *f.from
		if f.file && *f.from != "" {
			path, err := filepath.Abs(*f.from)
			if err != nil {
				return err
			}
			*f.into = path
		}
	}
	return p.check()
}

// check refuses a context by which no node could be reached, before it is kept.
func (p *place) check() error {
	if p.Server == "" {
		return usagef("--server: give the address of a node, such as node-1.example:%s", client.DefaultPort)
	}
	r := reach{server: p.Server}
	r.take(p)
	node, err := r.dial() // it does not connect yet
	if err != nil {
		return err
	}
	return node.Close()
}

// checkContextName refuses names that nobody could type again.
func checkContextName(name string) error {
	odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return usagef("%q is no name of a context: it has no spaces, and is not empty", clip(name, 40))
	}
	return nil
}

func newContextDelete(a app) *cobra.Command {
	return contextAct(a, "delete NAME", "Forget a context", func(c *contexts, name string) string {
		delete(c.Contexts, name)
		if c.Current == name {
			c.Current = ""
		}
		return "context " + name + " is forgotten"
	})
}

// take sets what is not said yet from a context.
func (r *reach) take(p *place) {
	if r.key.token == "" && r.key.file == "" {
		r.key.file = p.TokenFile
	}
	for _, f := range []struct{ into, from *string }{{&r.tls.CA, &p.CA}, {&r.tls.Cert, &p.Cert},
		{&r.tls.Key, &p.Key}, {&r.tls.ServerName, &p.ServerName}} {
		if *f.into == "" {
			*f.into = *f.from
		}
	}
}

// byContext sets from a context what is not said yet. whence: where the node is has been said.
func (r *reach) byContext(whence bool) error {
	if r.context == "" && whence {
		return nil // what the current context says of TLS is about other nodes
	}
	if _, err := contextsFile(); err != nil && r.context == "" {
		return nil // whoever has no folder has no contexts
	}
	c, err := readContexts()
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	name := r.context
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return nil
	}
	p, err := c.get(name)
	if err != nil {
		return err
	}
	if !whence {
		r.server = p.Server
	}
	r.take(p)
	r.namespaceOf = p.Namespace
	return nil
}
