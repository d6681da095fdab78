package httptarget

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// given are secrets by their names; "away" is one that never comes.
type given map[string]string

// Value implements [Secrets].
func (g given) Value(ctx context.Context, use SecretUse) (string, error) {
	if use.Ref.Name == "away" {
		<-ctx.Done()
		return "", &SecretError{Message: "secret away: it does not come", RetryAfter: 48 * time.Hour, Passes: g["away"] != ""}
	}
	value, ok := g[use.Ref.Name]
	if !ok {
		return "", &SecretError{Message: "there is no secret " + use.Ref.Name, Lags: use.Ref.Name == "lags"}
	}
	return strings.TrimSpace(use.Ref.Scheme + " " + value), nil
}

// Rejected implements [Secrets].
func (g given) Rejected(use SecretUse, value string) { g[use.Ref.Name+" rejected"] = value }

// TestSecretsAreSentAndNotKept has a target repeat what it gets, also where the kept answer ends.
func TestSecretsAreSentAndNotKept(t *testing.T) {
	const value = "s3cr3t-value"
	for name, before := range map[string]int{"whole": 0, "cut": carillon.MaxResponse - len(value)/2,
		"short": carillon.MaxResponse - 1} {
		synctest.Test(t, func(t *testing.T) {
			secrets := given{"tok": value}
			bubble(t, Options{Named: secrets}, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("X-Key"); got != "Bearer "+value || r.Header.Get("X-Plain") != "plain" {
					t.Errorf("got %v", r.Header)
				}
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, strings.Repeat(".", before)+value+strings.Repeat(value, 10))
			}, func(t *testing.T, d *fakeSink) {
				v := newDelivery(1, "http://a.example.com/")
				v.Target.HTTP.Headers = map[string]string{"x-key": "Bearer secret://tok", "x-plain": "plain"}
				r := d.do(t, v)
				if bytes.Contains(r.Response, []byte("s3")) || len(r.Response) > carillon.MaxResponse ||
					len(r.Response) < before {
					t.Errorf("%s: the result has %d bytes and ends with %q", name, len(r.Response),
						r.Response[max(0, len(r.Response)-40):])
				}
				if v.Target.HTTP.Headers["x-key"] != "Bearer secret://tok" {
					t.Error("the delivery has the value")
				}
			})
			if secrets["tok rejected"] != "Bearer "+value {
				t.Errorf("%s: 401 is not told", name)
			}
		})
	}
}

// TestSecretsInBrokenAnswersAreNotKept has a target repeat a secret in what is no answer, which errors quote,
// and in an answer that breaks off.
func TestSecretsInBrokenAnswersAreNotKept(t *testing.T) {
	secrets := given{"tok": `s3cr3t-"value`, "long": `s3cr3t-"value-s3cr3t-longer`}
	headers := map[string]string{"x-key": "Bearer secret://tok", "x-long": "secret://long"}
	for answer, want := range map[string]string{
		`s3cr3t-"value` + "\r\n": "[secret]", `HTTP/1.1 s3cr3t-"value OK` + "\r\n": "[secret]",
		"HTTP/1.1 200 OK\r\n" + `s3cr3t-"value` + "\r\n":    "[secret]",
		`s3cr3t-"value-s3cr3t-longer` + "\r\n":              "[secret]",
		strings.Repeat(".", 990) + `s3cr3t-"value` + "\r\n": "...",

		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + `at s3cr3t-"value`:           "at ",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + `at s3cr3t-"val`:             "at ",
		"HTTP/1.1 200 OK\r\n\r\n" + `at s3cr3t-"value-s3cr3t-longer`:                   "at [secret]",
		"HTTP/1.1 200 OK\r\n\r\n" + `Bearer s3cr3t-"values3cr3t-"value to`:             "[secret] to",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + `at s3cr3t-"value-s3cr3t-lo`: "at [secret]",
	} {
		r := rawly(t, Options{Named: secrets}, headers, func(c net.Conn) { _, _ = io.WriteString(c, answer) })
		all := r.Message + "\n" + string(r.Response)
		if strings.Contains(all, "s3") || strings.Contains(all, "longer") || !strings.Contains(all, want) {
			t.Errorf("%s\n%s", answer, all)
		}
	}
}

// TestAttemptsWithoutTheirSecretsSendNothing.
func TestAttemptsWithoutTheirSecretsSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{Named: given{}}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("got %v", r.Header) },
			func(t *testing.T, d *fakeSink) {
				for i, c := range []struct {
					value, want string
					permanent   bool
					after       time.Duration
				}{
					{"secret://none", "its headers: there is no secret none", false, 0},
					{"a b secret://none", "its headers: ", true, 0},
					{"secret://away", "its headers: secret away: ", false, MaxRetryAfter},
				} {
					v := newDelivery(i, "http://a.example.com/")
					v.Target.HTTP.Headers = map[string]string{"X-Key": c.value}
					begun := time.Now()
					r := d.do(t, v)
					if !strings.HasPrefix(r.Message, c.want) || r.Outcome != carillon.OutcomeFailure ||
						r.Permanent != c.permanent || r.RetryAfter != c.after || time.Since(begun) > tokenWait {
						t.Errorf("%s: %+v after %v", c.value, r, time.Since(begun))
					}
				}
			})
	})
}

// TestAnAttemptIsPutOffWhileItsSecretIsAway: nothing was sent, so its policy does not count it.
func TestAnAttemptIsPutOffWhileItsSecretIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{Named: given{"away": "passes"}},
			func(_ http.ResponseWriter, r *http.Request) { t.Errorf("got %v", r.Header) },
			func(t *testing.T, d *fakeSink) {
				v := newDelivery(1, "http://a.example.com/")
				v.Target.HTTP.Headers = map[string]string{"X-Key": "secret://away"}
				r := d.do(t, v)
				pause := time.Until(r.At)
				if r.Outcome != carillon.OutcomeReschedule || pause < longestPutOff || pause > 2*longestPutOff ||
					!strings.HasPrefix(r.Message, "its headers: secret away: ") {
					t.Errorf("%+v, in %v", r, pause)
				}
			})
	})
}

// TestAFileThatIsLatePutsARunOffOnce: a secret that is still missing after that fails the attempt.
func TestAFileThatIsLatePutsARunOffOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{Named: given{}}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("got %v", r.Header) },
			func(t *testing.T, d *fakeSink) {
				for i, want := range []carillon.Outcome{carillon.OutcomeReschedule, carillon.OutcomeFailure} {
					v := newDelivery(i, "http://a.example.com/")
					v.Run.Attempt = i + 1
					v.Target.HTTP.Headers = map[string]string{"X-Key": "secret://lags"}
					if r := d.do(t, v); r.Outcome != want {
						t.Errorf("attempt %d: %+v", i+1, r)
					}
				}
			})
	})
}

// TestANodeWithoutSecretsSendsWhatJobsHave, also what is no reference: it was sent so before there were any.
func TestANodeWithoutSecretsSendsWhatJobsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, value := range []string{"secret://a", "see secret://a, or so"} {
			bubble(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("X-Key"); got != value {
					t.Errorf("got %q", got)
				}
			}, func(t *testing.T, d *fakeSink) {
				v := newDelivery(1, "http://a.example.com/")
				v.Target.HTTP.Headers = map[string]string{"X-Key": value}
				if r := d.do(t, v); r.Outcome != carillon.OutcomeSuccess {
					t.Errorf("%+v", r)
				}
			})
		}
	})
}

// TestANodeThatLeavesWhileASecretIsAwaited has another one make the attempt, which is not counted.
func TestANodeThatLeavesWhileASecretIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New(Options{Named: given{}})
		d := open(t, target)
		v := newDelivery(1, "http://a.example.com/")
		v.Target.HTTP.Headers = map[string]string{"X-Key": "secret://away"}
		d.deliver(t, v)
		synctest.Wait()
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		if r := <-d.reports; r.Outcome != carillon.OutcomeReschedule {
			t.Errorf("%+v", r)
		}
	})
}

// TestSecretsAndPayloadShareTheirTime: half of the attempt's, so that the target has the other half.
func TestSecretsAndPayloadShareTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bubble(t, Options{Named: late{}, Payloads: silent{}}, func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("got %v", r.Header)
		}, func(t *testing.T, d *fakeSink) {
			v := newDelivery(1, "http://a.example.com/")
			v.Target.HTTP.Headers = map[string]string{"X-Key": "secret://a"}
			v.Run.Data = carillon.Data{Ref: &carillon.PayloadRef{Size: 1 << 20}}
			v.Timeout = 4 * lateBy
			begun := time.Now()
			r := d.do(t, v)
			if took := time.Since(begun); took != v.Timeout/2 || r.Outcome != carillon.OutcomeReschedule {
				t.Errorf("%+v after %v", r, took)
			}
		})
	})
}

const lateBy = 5 * time.Second

// late are secrets that come late.
type late struct{ given }

// Value implements [Secrets].
func (late) Value(context.Context, SecretUse) (string, error) {
	<-time.After(lateBy)
	return "s3cr3t-value", nil
}

// silent is a payload store that does not answer.
type silent struct{ noPayloads }

// Get implements [dispatch.Payloads].
func (silent) Get(ctx context.Context, _ string, _ carillon.PayloadRef) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
