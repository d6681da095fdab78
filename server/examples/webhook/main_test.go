package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEachRunOnce(t *testing.T) {
	var out strings.Builder
	s := newReceiver(&out)
	for _, attempt := range []string{"1", "2"} {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"x":1}`))
		req.Header.Set("Idempotency-Key", "a run")
		req.Header.Set("Carillon-Job", "default/hello")
		req.Header.Set("Carillon-Attempt", attempt)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != 204 {
			t.Errorf("attempt %s was answered %d", attempt, w.Code)
		}
	}
	if want := "default/hello, attempt 1: {\"x\":1}\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
