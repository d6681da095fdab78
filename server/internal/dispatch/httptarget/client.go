package httptarget

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
)

// maxAnswer is the most bytes of an answer that a [Client] reads.
const maxAnswer = 64 << 10

// errHuge is why a larger one is not read.
var errHuge = errors.New("the answer is larger than 64 KiB")

// Client returns a client for what a node asks for besides targets. It dials what targets may dial, by Allow,
// Resolver, TLS and Dial of the options. It follows no redirects, uses no proxy, and reads answers up to
// 64 KiB. Whoever uses it bounds its requests by their contexts.
func Client(o Options) *http.Client {
	dial := o.dialler(guard{o.Allow})
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{&http.Transport{
			DialContext:            dial,
			TLSClientConfig:        clientTLS(o.TLS),
			TLSHandshakeTimeout:    connectTimeout,
			DisableCompression:     true,
			DisableKeepAlives:      true, // it asks seldom
			MaxResponseHeaderBytes: MaxResponseHeader,
		}},
	}
}

// dialler returns what dials: Dial, or TCP to what the guard lets through.
func (o *Options) dialler(g guard) dialFunc {
	if o.Dial != nil {
		return o.Dial
	}
	return (&net.Dialer{Timeout: connectTimeout, Resolver: o.Resolver, Control: g.control}).DialContext
}

// bounded makes larger answers fail.
type bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{resp.Body, maxAnswer}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), cmp.Or(max(b.left, 0), 1))])
	if b.left -= n; b.left < 0 {
		return 0, errHuge
	}
	return n, err
}
