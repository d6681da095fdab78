package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// addEncryption adds the flags about the keys that encrypt what is stored.
func addEncryption(flags *pflag.FlagSet, e *server.Encryption) {
	addKeys(flags, e, "`file` with a Tink keyset in JSON by which what jobs hold is encrypted in the store, the same for all nodes; "+
		"read again when it changes, and on SIGHUP; default: nothing is encrypted")
}

// addKeys adds them for a command that uses the keys for something else.
func addKeys(flags *pflag.FlagSet, e *server.Encryption, what string) {
	flags.StringVar(&e.Keys, "encryption-keys", "", what)
	addKEK(flags, &e.KEK)
}

// boxOf returns what encrypts and decrypts with the keys of the flags; nil: there are none.
func boxOf(e *server.Encryption) (*sealed.Box, error) {
	switch {
	case e.Keys == "" && e.KEK != "":
		return nil, usagef("--encryption-kek: there is no file that it decrypts: give --encryption-keys, too")
	case e.Keys == "":
		return nil, nil
	}
	k, err := keyset.File{Path: e.Keys, KEK: e.KEK}.Read()
	if err != nil {
		return nil, fmt.Errorf("--encryption-keys: %w", err)
	}
	return sealed.New(keyset.NewSet(k)), nil
}

// addKEK adds the flag about the key that encrypts the file of the others.
func addKEK(flags *pflag.FlagSet, uri *string) {
	flags.StringVar(uri, "encryption-kek", "",
		"`uri` of the key that encrypts the file of --encryption-keys: file:PATH, a keyset of its own; default: that file is in the clear")
}

// newEncryptionKey returns the command `carillon encryption-key`.
func newEncryptionKey(a app) *cobra.Command {
	return newGroup("encryption-key", "Files of keys, for nodes that run with --encryption-keys",
		newEncryptionKeyCommand(a, encryptionKeyCommand{
			use: "create FILE", short: "Make a file with a new key", example: `carillon encryption-key create keys.json
carillon encryption-key create kek.json && carillon encryption-key create keys.json --encryption-kek file:kek.json`,
			long: `Make a file with a new key: a Tink keyset in JSON, which only its owner may read. Keep a copy of it elsewhere than the
backups of the store: what was encrypted cannot be read without it, by anybody.`,
			do: func(f keyset.File, _ uint32) (*keyset.Keys, string, error) {
				k, err := f.Create()
				return k, "The key encrypts what is written from now on. Keep a copy of the file apart from backups of the store.", err
			}}),
		newEncryptionKeyCommand(a, encryptionKeyCommand{
			use: "add FILE", short: "Add a new key, which decrypts and does not encrypt yet",
			long: `Add a new key to the file. It is the first step of a rotation: nodes that have it can decrypt what others write with it.
Give the file to all nodes, which read it again by themselves, and promote the key once each has said so in its log.`,
			example: `carillon encryption-key add keys.json`,
			do: func(f keyset.File, _ uint32) (*keyset.Keys, string, error) {
				k, id, err := f.Add()
				return k, fmt.Sprintf("Give the file to all nodes, and then: carillon encryption-key promote %s %08x", f.Path, id), err
			}}),
		newEncryptionKeyCommand(a, encryptionKeyCommand{
			use: "promote FILE ID", short: "Make a key the primary one, which encrypts what is written",
			long: `Make a key the primary one. It is the second step of a rotation: all nodes must have the key by then. The key before stays,
since records are encrypted with it until they are written again.`,
			example: `carillon encryption-key promote keys.json 4f1c20aa`,
			do: func(f keyset.File, id uint32) (*keyset.Keys, string, error) {
				k, err := f.Promote(id)
				return k, "Give the file to all nodes. Records that are there keep the key that they have.", err
			}}),
		newEncryptionKeyCommand(a, encryptionKeyCommand{
			use: "remove FILE ID", short: "Remove a key, without which what it has encrypted is lost",
			long: `Remove a key from the file. What was encrypted with it cannot be read any more: in the store, which refuses a file that lacks
a key that it needs, in the payload store and in backups. Wait until the day after the next, by UTC, after another key was
promoted on all nodes: until then large payloads may be used again that have this one (docs/security.md).`,
			example: `carillon encryption-key remove keys.json 4f1c20aa`,
			do: func(f keyset.File, id uint32) (*keyset.Keys, string, error) {
				k, err := f.Remove(id)
				return k, "", err
			}}),
		newEncryptionKeyCommand(a, encryptionKeyCommand{
			use: "list FILE", short: "List the keys of a file, without the keys themselves",
			example: `carillon encryption-key list keys.json`,
			do: func(f keyset.File, _ uint32) (*keyset.Keys, string, error) {
				k, err := f.Read()
				return k, "", err
			}}),
	)
}

// encryptionKeyCommand is one of the commands on a file of keys.
type encryptionKeyCommand struct {
	use, short, long, example string
	do                        func(f keyset.File, id uint32) (k *keyset.Keys, note string, err error)
}

func newEncryptionKeyCommand(a app, c encryptionKeyCommand) *cobra.Command {
	words := strings.Count(c.use, " ")
	var f keyset.File
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: arguments(words, words),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Path = args[0]
			id := uint64(0)
			if len(args) > 1 {
				var err error
				if id, err = strconv.ParseUint(args[1], 16, 32); err != nil {
					return usagef("ID: %q is not the id of a key, such as 4f1c20aa", clip(args[1], 40))
				}
			}
			k, note, err := c.do(f, uint32(id))
			if err != nil {
				return err
			}
			if note != "" {
				a.sayf("%s", note)
			}
			return a.showKeys(cmd, k.List())
		},
	}
	addKEK(cmd.Flags(), &f.KEK)
	addOutput(cmd)
	return cmd
}

// encryptionKey is a key as JSON.
type encryptionKey struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Primary bool   `json:"primary"`
	Enabled bool   `json:"enabled"`
}

func (a app) showKeys(cmd *cobra.Command, list []keyset.Key) error {
	shown := make([]encryptionKey, len(list))
	for i, k := range list {
		shown[i] = encryptionKey{fmt.Sprintf("%08x", k.ID), k.Type, k.Primary, k.Enabled}
	}
	if structured(cmd) {
		return a.encode(cmd, shown)
	}
	return a.print(table([]string{"ID", "TYPE", "USE"}, shown, func(k *encryptionKey) []string {
		use := "decrypts"
		switch {
		case !k.Enabled:
			use = "none: it is disabled"
		case k.Primary:
			use = "encrypts and decrypts"
		}
		return []string{k.ID, k.Type, use}
	}))
}
