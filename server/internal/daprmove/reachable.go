package daprmove

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/carillonhq/carillon/server/internal/clienttls"
)

// obstacle is what is in the way to an etcd. The client of etcd tries for as long as it may and does not say
// what is wrong.
type obstacle struct {
	err   error
	stays bool // trying again does not help
}

// obstacles connects once to each of the addresses, at the same time. It returns an obstacle that stays only
// if all do, since the client needs one address that can be used.
func obstacles(ctx context.Context, endpoints []string, config *tls.Config) obstacle {
	found := make([]obstacle, len(endpoints))
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() { found[i] = obstacleAt(ctx, e, config) })
	}
	all.Wait()
	sum := obstacle{stays: true}
	for _, o := range found {
		sum = obstacle{errors.Join(sum.err, o.err), sum.stays && o.stays}
	}
	return sum
}

func obstacleAt(ctx context.Context, endpoint string, config *tls.Config) obstacle {
	u, err := url.Parse(endpoint)
	if err != nil {
		return obstacle{err, true}
	}
	if !isHTTPS(endpoint) {
		if clienttls.SpeaksTLS(ctx, u.Host) {
			return obstacle{fmt.Errorf("the etcd at %s speaks TLS: give https://%s", u.Host, u.Host), true}
		}
		return obstacle{}
	}
	err = clienttls.Probe(ctx, config, u.Host)
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(err, clienttls.ErrNoTLS):
		return obstacle{fmt.Errorf("the etcd at %s does not speak TLS: give http://%s", u.Host, u.Host), true}
	case errors.Is(err, io.EOF): // so does an etcd without TLS
		return obstacle{fmt.Errorf("the etcd at %s ends the connection when TLS begins: if it does not speak TLS, give http://%s",
			u.Host, u.Host), true}
	case errors.Is(err, clienttls.ErrRefused):
		return obstacle{fmt.Errorf("the etcd at %s does not accept this client: --etcd-cert-file and --etcd-key-file must be of one "+
			"that it lets in (%w)", u.Host, err), true}
	case unverified:
		return obstacle{fmt.Errorf("the etcd at %s cannot be verified by --etcd-ca-file: %w", u.Host, err), true}
	}
	return obstacle{err, false}
}
