package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// TestTokensStayHidden: in plain text one goes to this machine alone, unless the caller says otherwise, and
// no error shows it.
func TestTokensStayHidden(t *testing.T) {
	const token = "ck_verysecret"
	secure := client.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}))
	for _, c := range []struct {
		addr string
		opts []client.Option
		ok   bool
	}{
		{"127.0.0.1:7070", nil, true}, {"localhost", nil, true}, {"[::1]:7070", nil, true}, {"::1", nil, true},
		{"127.0.0.1,localhost", nil, true}, {"unix:/run/carillon", nil, true}, {"dns:///localhost:7070", nil, true},
		{"node.example", nil, false}, {"10.0.0.1:7070", nil, false}, {"127.0.0.1,10.0.0.1", nil, false},
		{"dns:///node.example:7070", nil, false}, {"localhost.example", nil, false},
		{"node.example", []client.Option{secure}, true},
		{"node.example", []client.Option{client.WithTokenInPlainText()}, true},
	} {
		node, err := client.Dial(c.addr, append(c.opts, client.WithToken(token))...)
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, carillon.InvalidArgument) || strings.Contains(err.Error(), token)) {
			t.Errorf("%s: %v", c.addr, err)
		}
		if err == nil {
			if strings.Contains(fmt.Sprintf("%v", node), token) {
				t.Errorf("%s: the client shows its token", c.addr)
			}
			_ = node.Close()
		}
	}
	for _, wrong := range []string{"", "a b", "ck_\n", "ck_é"} {
		if _, err := client.Dial("localhost", client.WithToken(wrong)); !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestATokenSourceIsNotAskedToDial: it may have no token yet, and may not send one to others in plain text.
func TestATokenSourceIsNotAskedToDial(t *testing.T) {
	source := client.WithTokenSource(func(context.Context) (string, error) {
		t.Error("it was asked")
		return "", nil
	})
	node, err := client.Dial("localhost", source)
	if err != nil {
		t.Fatal(err)
	}
	_ = node.Close()
	if _, err := client.Dial("node.example", source); !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("in plain text: %v", err)
	}
}
