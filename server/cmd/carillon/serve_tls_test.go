package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// served resolves a command line of serve.
func served(t *testing.T, words ...string) (server.Config, error) {
	t.Helper()
	s := serveFlags()
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	s.add(cmd.Flags())
	if err := cmd.ParseFlags(words); err != nil {
		t.Fatal(err)
	}
	c, err := s.resolve(cmd, io.Discard)
	if s.tls.end != nil {
		s.tls.end()
	}
	return c, err
}

// TestTLSFlags: each that is wrong, does not go with the others or would have no effect is refused by name.
func TestTLSFlags(t *testing.T) {
	a := testca.New(t)
	cert, key := a.Issue(nil, "127.0.0.1").Files(t)
	_, other := a.Issue(nil, "127.0.0.1").Files(t)
	pair := "--tls-cert " + cert + " --tls-key " + key
	const alone, shared = "--store memory: ", "--store redis://127.0.0.1:1 "
	for line, want := range map[string]string{
		alone + pair: "", alone + pair + " --tls-client-ca " + a.File: "", alone: "",
		shared + pair + " --tls-peer-ca " + a.File:                             "",
		shared + pair + " --tls-client-ca " + a.File:                           "",
		shared + pair + " --tls-client-ca " + a.File + " --tls-peer-name node": "--tls-cert ",
		shared + pair:                                                            "--tls-peer-ca: ",
		shared + "--tls-peer-ca " + a.File:                                       "--tls-cert: ",
		alone + "--tls-cert " + cert:                                             "--tls-key: ",
		alone + "--tls-key " + key:                                               "--tls-cert: ",
		alone + "--tls-client-ca " + a.File:                                      "--tls-cert: ",
		alone + "--tls-peer-name node":                                           "--tls-peer-name: ",
		alone + pair + " --tls-peer-ca " + a.File:                                "--tls-peer-ca: ",
		alone + pair + " --tls-peer-name node":                                   "--tls-peer-name: ",
		alone + pair + " --tls-client-ca " + key:                                 "--tls-client-ca: ",
		alone + pair + " --tls-spiffe unix:///run":                               "--tls-cert: ",
		alone + "--tls-spiffe run":                                               "--tls-spiffe: ",
		shared + "--tls-spiffe unix:///run --tls-peer-name node":                 "--tls-peer-name: ",
		alone + "--tls-spiffe unix:///run --tls-client-ca " + a.File:             "--tls-client-ca: ",
		alone + "--tls-cert " + cert + " --tls-key " + other:                     "--tls-key ",
		alone + "--tls-cert /none --tls-key " + key:                              "--tls-cert: ",
		alone + pair + " --grpc 0.0.0.0:0":                                       "tls_client_ca",
		alone + pair + " --grpc 0.0.0.0:0 --http none --insecure":                "",
		alone + pair + " --grpc 0.0.0.0:0 --http none --tls-client-ca " + a.File: "",
	} {
		c, err := served(t, strings.Fields(line)...)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if secure := strings.Contains(line, pair); err == nil && (c.Credentials != nil) != secure {
			t.Errorf("%s: credentials %v", line, c.Credentials)
		}
	}
}

// TestTLSFromTheFileOfSettings: the keys are the flags'.
func TestTLSFromTheFileOfSettings(t *testing.T) {
	cert, key := testca.New(t).Issue(nil, "127.0.0.1").Files(t)
	file := filepath.Join(t.TempDir(), "carillon.yaml")
	testca.Write(t, file, []byte("store: 'memory:'\ntls_cert: "+cert+"\ntls_key: "+key+"\n"))
	if c, err := served(t, "--config", file); err != nil || c.Credentials == nil {
		t.Errorf("%v, %v", c.Credentials, err)
	}
}
