package daprtls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// How sentry is asked.
const (
	// signTimeout is how long one call of sentry may take.
	signTimeout = 5 * time.Second
	// maxRetry is the longest time between two calls when sentry refuses or is away. Dapr's own is 10 s.
	maxRetry = 10 * time.Second
)

// FromSentry keeps an identity that Dapr's sentry signs. It returns at once; sentry, and the file of trust
// anchors, are waited for ([Source.Ready], [Source.Err]). A new key and certificate are had when half of the
// certificate's life is over, as Dapr has it, and at once when the trust anchors no longer vouch for the one
// in force.
func FromSentry(o Sentry) (*Source, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	domains, _ := clientDomains(o.ClientTrustDomains) // they are valid
	s := newSource(o.Log, domains)
	s.keep(&sentry{o: o, anchors: anchorsFile{path: o.TrustAnchorsFile}, folder: folder{path: o.WriteTo}})
	return s, nil
}

// sentry keeps an identity that sentry signs.
type sentry struct {
	o       Sentry
	anchors anchorsFile
	folder  folder

	due     time.Time     // when sentry is asked next
	retry   time.Duration // from the last failure to the next call; 0: the last call was none
	failure error         // of the last call

	signed  *signed // in force; nil: none yet
	written bool    // what is in force is in the folder
}

// signed is an identity as sentry has signed it.
type signed struct {
	svid      *x509svid.SVID
	cert, key []byte // PEM
}

// look asks sentry when that is due.
func (k *sentry) look(ctx context.Context, s *Source) error {
	anchors, err := k.anchors.read()
	if anchors != nil {
		k.written = false
		if !s.trust(anchors) {
			k.due = time.Time{}
		}
	}
	if k.anchors.raw == nil {
		return err
	}
	if now := time.Now(); !now.Before(k.due) {
		k.ask(ctx, s, now)
	}
	return errors.Join(err, k.failure, k.write())
}

// ask asks sentry for an identity and puts it in force.
func (k *sentry) ask(ctx context.Context, s *Source, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	got, err := k.o.sign(ctx, s)
	k.failure = err
	if err != nil {
		k.retry = min(max(poll, 2*k.retry), maxRetry)
		k.due = now.Add(k.retry)
		return
	}
	k.retry, k.signed, k.written = 0, got, false
	k.due = halfLife(got.svid)
	s.put(got.svid)
}

// halfLife is when half of a certificate's life is over.
func halfLife(svid *x509svid.SVID) time.Time {
	leaf := svid.Certificates[0]
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
}

// write writes what is in force to the folder, if it is not there yet.
func (k *sentry) write() error {
	if k.folder.path == "" || k.signed == nil || k.written {
		return nil
	}
	err := k.folder.write(map[string][]byte{"cert.pem": k.signed.cert, "key.pem": k.signed.key,
		"ca.pem": k.anchors.raw})
	k.written = err == nil
	if err != nil {
		return fmt.Errorf("identity_directory_write: %w", err)
	}
	return nil
}
