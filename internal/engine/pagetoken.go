package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/carillonhq/carillon"
)

// A page token says where the next page of a list begins. It carries a MAC over that place and over the list that it is
// of, with the store's key: any node takes the token of any other, and none takes one that is forged, cut, or of another
// namespace, job or filter. That is more than good manners. A place is a position in the store's index, which holds the
// runs of all namespaces: a place outside of the list that is asked for would show what is not in it.
type pageToken struct {
	list   []string // what the list is of: its kind first, then all that narrows it
	macKey []byte
}

// pageMACSize is how many bytes of the HMAC-SHA-256 a page token carries.
const pageMACSize = 16

// jobPages is the token of a list of jobs.
func (e *Engine) jobPages(q *carillon.JobQuery) pageToken {
	list := []string{"jobs", q.Namespace, q.Prefix, q.Label}
	if q.Phase != nil {
		list = append(list, q.Phase.String())
	}
	return pageToken{list, e.macKey}
}

// runPages is the token of a list of runs.
func (e *Engine) runPages(q *carillon.RunQuery) pageToken {
	list := []string{"runs", q.Namespace, q.Job}
	if q.Status != nil {
		list = append(list, q.Status.String())
	}
	return pageToken{list, e.macKey}
}

// at is the token of a place.
func (t pageToken) at(place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(t.mac(place), place...))
}

// place is what a token says; nothing for no token.
func (t pageToken) place(token string) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < pageMACSize || !hmac.Equal(raw[:pageMACSize], t.mac(raw[pageMACSize:])) {
		return nil, carillon.Errorf(carillon.InvalidArgument, "page_token",
			"this is not a page token of this list; give back next_page_token as it was, with the same namespace and filters")
	}
	return raw[pageMACSize:], nil
}

// mac is the MAC of a place. Each part is preceded by its length, so that no two lists are taken for one another.
func (t pageToken) mac(place []byte) []byte {
	h := hmac.New(sha256.New, t.macKey)
	head := append([]byte("page token\x00"), byte(len(t.list))) // no token of an attempt begins so
	for _, part := range t.list {
		head = append(binary.AppendUvarint(head, uint64(len(part))), part...)
	}
	h.Write(head)
	h.Write(place)
	return h.Sum(nil)[:pageMACSize]
}
