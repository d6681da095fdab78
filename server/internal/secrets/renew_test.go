package secrets

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// newTokens are tokens whose requests the test makes itself; others fail, for want of an address.
func newTokens(t *testing.T) *tokens {
	t.Helper()
	s := NewSet(&http.Client{}, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	return &tokens{name: "t", set: s, config: &clientcredentials.Config{}}
}

// TestWhenATokenIsUsed tells when it is made again, by how long it lasts.
func TestWhenATokenIsUsed(t *testing.T) {
	for life, want := range map[time.Duration]struct{ renew, ends time.Duration }{
		0:                {longestUse - renewBefore, longestUse - endMargin}, // it does not say
		time.Hour:        {time.Hour - renewBefore, time.Hour - endMargin},
		time.Minute:      {45 * time.Second, 50 * time.Second},
		20 * time.Second: {15 * time.Second, 15 * time.Second},
		time.Second:      {shortestUse, shortestUse},
		-time.Second:     {shortestUse, shortestUse},
	} {
		synctest.Test(t, func(t *testing.T) {
			k, now := newTokens(t), time.Now()
			token := &oauth2.Token{AccessToken: "tok"}
			if life != 0 {
				token.Expiry = now.Add(life)
			}
			k.fetched(now, token, nil)
			if renew, ends := k.renew.Sub(now), k.ends.Sub(now); renew != want.renew || ends != want.ends {
				t.Errorf("%v: renewed after %v, used for %v", life, renew, ends)
			}
		})
	}
}

// TestAnEndpointThatIsAwayIsAskedLessAndLess, and a token that is there is used meanwhile.
func TestAnEndpointThatIsAwayIsAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTokens(t)
		k.fetched(time.Now(), &oauth2.Token{AccessToken: "tok", Expiry: time.Now().Add(time.Hour)}, nil)
		<-time.After(time.Until(k.renew))
		pauses := []int{1, 2, 4, 8, 16, 32, 60, 60}
		for _, want := range pauses {
			k.fetched(time.Now(), nil, errors.New("away"))
			if pause := time.Until(k.retry); pause != time.Duration(want)*time.Second {
				t.Errorf("it is asked again after %v, not %ds", pause, want)
			}
		}
		if got, wait, err := k.look(time.Now()); got != "tok" || wait != nil || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		<-time.After(time.Until(k.ends))
		k.retry = time.Now().Add(time.Second)
		if got, wait, err := k.look(time.Now()); got != "" || wait != nil || err == nil {
			t.Errorf("a token that has ended: %q, %v", got, err)
		}
		k.fetched(time.Now(), &oauth2.Token{AccessToken: "next"}, nil)
		if got, _, err := k.look(time.Now()); got != "next" || err != nil || k.failures != 0 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestATokenThatATargetDoesNotTake is made again, once a minute at most.
func TestATokenThatATargetDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTokens(t)
		k.fetched(time.Now(), &oauth2.Token{AccessToken: "tok"}, nil)
		k.reject("tok")
		if got, _, _ := k.look(time.Now()); got != "tok" {
			t.Error("it is made again at once")
		}
		<-time.After(trusted)
		k.reject("another")
		if got, _, _ := k.look(time.Now()); got != "tok" {
			t.Error("it is made again for another one")
		}
		k.reject("tok")
		if k.fetching == nil {
			t.Error("it is not made again")
		}
		for range 2 { // before there is an answer, and after a failure
			if got, wait, err := k.look(time.Now()); got != "tok" || wait != nil || err != nil {
				t.Errorf("others do not get it any more: %q, %v", got, err)
			}
			synctest.Wait()
		}
		if k.failures != 1 {
			t.Errorf("%d requests have failed", k.failures)
		}
		k.fetched(time.Now(), &oauth2.Token{AccessToken: "next"}, nil)
		if got, _, _ := k.look(time.Now()); got != "next" {
			t.Errorf("the token is %q", got)
		}
	})
}
