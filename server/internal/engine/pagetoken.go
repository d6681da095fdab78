package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/carillonhq/carillon"
)

// A page token says where the next page of a list begins. It carries a MAC over that place and over the list
// it belongs to, with the store's key. So any node accepts the tokens of any other, and none accepts a token
// that is forged, truncated, or of another namespace, job or filter. This is a matter of security: a place is
// a position in the store's index, which holds the runs of all namespaces, so a place outside the requested
// list would show what is not in that list.
type pageToken struct {
	list   []string // identifies the list: its kind first, then every filter
	macKey []byte
}

// pageMACSize is how many bytes of the HMAC-SHA-256 a page token carries.
const pageMACSize = 16

// jobPages returns the page token of a list of jobs.
func jobPages(macKey []byte, q *carillon.JobQuery) pageToken {
	list := []string{"jobs", q.Namespace, q.Prefix, q.Label}
	if q.Phase != nil {
		list = append(list, q.Phase.String())
	}
	return pageToken{list, macKey}
}

// namespacePages returns the page token of a list of namespaces.
func namespacePages(macKey []byte) pageToken { return pageToken{[]string{"namespaces"}, macKey} }

// runPages returns the page token of a list of runs.
func runPages(macKey []byte, q *carillon.RunQuery) pageToken {
	list := []string{"runs", q.Namespace, q.Job}
	if q.Status != nil {
		list = append(list, q.Status.String())
	}
	return pageToken{list, macKey}
}

// at encodes a place as a token.
func (t pageToken) at(place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(t.mac(place), place...))
}

// place decodes a token; nil for no token.
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

// mac returns the MAC of a place. Each part is preceded by its length, so that two different lists never look
// the same.
func (t pageToken) mac(place []byte) []byte {
	h := hmac.New(sha256.New, t.macKey)
	head := append([]byte("page token\x00"), byte(len(t.list))) // no token of an attempt begins like this
	for _, part := range t.list {
		head = append(binary.AppendUvarint(head, uint64(len(part))), part...)
	}
	h.Write(head)
	h.Write(place)
	return h.Sum(nil)[:pageMACSize]
}
