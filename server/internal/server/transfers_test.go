package server_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
)

// ones is a body without an end, some of it at a time; taken says that some was.
type ones struct {
	some  int
	taken chan struct{}
}

func (o ones) Read(p []byte) (int, error) {
	p = p[:min(len(p), o.some)]
	for i := range p {
		p[i] = '1'
	}
	select {
	case o.taken <- struct{}{}:
	default:
	}
	return len(p), nil
}

// TestTransfersEndWithTheirKey: a payload that is sent or read by REST ends when the key of its caller is
// revoked, whether the caller goes on or is silent.
func TestTransfersEndWithTheirKey(t *testing.T) {
	const size = 48 << 20
	url := "pebble:" + t.TempDir()
	root := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})
	recorded := &syncBuffer{}
	node := serve(t, server.Config{Store: url, Partitions: 1, Extensions: server.Extensions{Auth: server.AuthKeys,
		Audit: server.Audit{To: server.AuditLog, Log: slog.New(slog.NewTextHandler(recorded, nil))}},
		Payloads: &server.Payloads{Store: "file:" + t.TempDir(), Max: 1 << 30}})
	admin := dialWith(t, node, root.Secret)
	ref, err := admin.PutPayload(t.Context(), "a", io.LimitReader(ones{some: size}, size))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, key string, body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+node.HTTPAddr()+"/v1/namespaces/a/payloads"+path, body)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Expect", "100-continue") // the body is asked for when the node has let the caller in
		return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			ExpectContinueTimeout: time.Hour}}).Do(r)
	}
	newKey := func() carillon.CreatedKey {
		k, err := admin.CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a")})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	revoke := func(k carillon.CreatedKey) {
		if _, err := admin.RevokeKey(t.Context(), k.Key.ID); err != nil {
			t.Fatal(err)
		}
	}
	begun, more := io.Pipe()
	defer more.Close()
	taken := make(chan struct{}, 1)
	for what, body := range map[string]io.Reader{"goes on": ones{1, taken}, "is silent": begun} {
		k := newKey()
		ended := make(chan error, 1)
		go func() {
			res, err := ask(http.MethodPut, "", k.Secret, body)
			if err == nil {
				var text []byte
				text, err = io.ReadAll(res.Body)
				if err = errors.Join(err, res.Body.Close()); err == nil && (res.StatusCode != http.StatusUnauthorized ||
					!strings.Contains(string(text), "API key")) {
					err = errors.New(res.Status + " " + string(text))
				}
			} else if !errors.Is(err, io.ErrClosedPipe) {
				err = nil // the node has closed the connection on which we wrote
			}
			ended <- err
		}()
		if body == begun {
			if _, err := more.Write([]byte("some")); err != nil {
				t.Fatal(err)
			}
		} else {
			<-taken
		}
		revoke(k)
		if err := await(t, ended); err != nil {
			t.Errorf("a body that %s: %v", what, err)
		}
	}
	eventually(t, "both are recorded as what they ended for", func() bool {
		return strings.Count(recorded.String(), "audit.action=PutPayload audit.namespace=a audit.outcome=unauthenticated") == 2
	})
	k := newKey()
	res, err := ask(http.MethodGet, "/"+ref.String(), k.Secret, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	revoke(k)
	if n, err := io.Copy(io.Discard, res.Body); err == nil || n+1 >= size {
		t.Errorf("%d bytes of %d came, %v", n+1, size, err)
	}
}
