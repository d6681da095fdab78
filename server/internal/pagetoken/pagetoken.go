// Package pagetoken makes the tokens by which lists are read page by page.
//
// A page token says where the next page of a list begins. It carries a MAC over that place and over the list
// it belongs to, with the store's key. So any node accepts the tokens of any other, and none accepts a token
// that is forged, truncated, or of another namespace, job or filter. This is a matter of security: a place is
// a position in the store's index, which holds the runs of all namespaces, so a place outside the requested
// list would show what is not in that list.
package pagetoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/carillonhq/carillon"
)

// List is a list of which tokens are made.
type List struct {
	Names  []string // identify the list: its kind first, then every filter
	MACKey []byte   // the store's
}

// macSize is how many bytes of the HMAC-SHA-256 a page token carries.
const macSize = 16

// At encodes a place as a token.
func (l List) At(place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(l.mac(place), place...))
}

// Place decodes a token; nil for no token.
func (l List) Place(token string) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < macSize || !hmac.Equal(raw[:macSize], l.mac(raw[macSize:])) {
		return nil, carillon.Errorf(carillon.InvalidArgument, "page_token",
			"this is not a page token of this list; give back next_page_token as it was, with the same namespace and filters")
	}
	return raw[macSize:], nil
}

// mac returns the MAC of a place. Each part is preceded by its length, so that two different lists never look
// the same.
func (l List) mac(place []byte) []byte {
	h := hmac.New(sha256.New, l.MACKey)
	head := append([]byte("page token\x00"), byte(len(l.Names))) // no token of an attempt begins like this
	for _, part := range l.Names {
		head = append(binary.AppendUvarint(head, uint64(len(part))), part...)
	}
	h.Write(head)
	h.Write(place)
	return h.Sum(nil)[:macSize]
}
