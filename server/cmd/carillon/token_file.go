package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenFile is a file with a token, which may be renewed.
type tokenFile struct {
	path string

	mu   sync.Mutex
	last string
	read time.Time
}

const (
	tokenLookEvery = time.Second           // at most
	tokenSettles   = 50 * time.Millisecond // between two looks that must see the same
	tokenLooks     = 20                    // for that
)

// token returns what is in the file, read again after a second. A change counts when two looks have seen the
// same, so that half a file does not; while it goes on changing, the token before it is shown.
func (f *tokenFile) token(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != "" && time.Since(f.read) < tokenLookEvery {
		return f.last, nil
	}
	token, err := f.load()
	if f.last != "" && (err != nil || token != f.last) {
		token, err = f.settled(ctx, token, err)
	}
	if err != nil {
		return "", err
	}
	f.last, f.read = token, time.Now()
	return token, nil
}

// settled looks again until two looks have seen the same; token and err are what the first one has seen.
func (f *tokenFile) settled(ctx context.Context, token string, err error) (string, error) {
	for range tokenLooks {
		pause := time.NewTimer(tokenSettles)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return "", ctx.Err()
		}
		next, failed := f.load()
		if next == token && fmt.Sprint(failed) == fmt.Sprint(err) {
			return token, err
		}
		token, err = next, failed
	}
	return f.last, nil
}

// load returns what is in the file, if it is a token.
func (f *tokenFile) load() (string, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	switch {
	case token == "":
		return "", fmt.Errorf("%s is empty", f.path)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s has a space or another character that no token has; it must hold one token, and an API key begins with ck_",
			f.path)
	case (strings.Contains(token, ".") || strings.HasPrefix(token, "eyJ")) && !wholeJWT(token):
		return "", fmt.Errorf("%s has no whole JWT, which is three parts of base64url with dots between them", f.path)
	}
	return token, nil
}

// wholeJWT reports whether a text may be a signed JWT that is not cut off.
func wholeJWT(text string) bool {
	parts := strings.Split(text, ".")
	for _, part := range parts {
		if _, err := base64.RawURLEncoding.DecodeString(part); err != nil || part == "" {
			return false
		}
	}
	return len(parts) == 3
}
