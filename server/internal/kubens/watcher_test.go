package kubens_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/kubens"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// rig is a node, whose jobs a watcher may remove, and the cluster of Kubernetes that it follows.
type rig struct {
	t    *testing.T
	api  *api
	node *server.Node
	file string
	log  bytes.Buffer
	turn time.Duration

	w      *kubens.Watcher
	mu     sync.Mutex
	broken error // what removing says at present
	calls  int
}

// bubble runs a test with a node that has a job of Dapr's and one of its own in each of the namespaces.
func bubble(t *testing.T, a func(t *testing.T) *api, names []string, test func(r *rig)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "data", "namespaces.json")
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, api: a(t), node: startNode(t), file: file}
		for _, name := range names {
			r.put(name)
		}
		test(r)
		r.stop()
		if err := r.node.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func startNode(t *testing.T) *server.Node {
	t.Helper()
	node, err := server.Start(t.Context(),
		server.Config{Store: "memory:", Partitions: 4, SlowStart: server.SlowStart{Step: -1}})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// put stores a job of an app, a reminder and a job of Carillon's own.
func (r *rig) put(namespace string) {
	r.t.Helper()
	putJobs(r.t, r.node.Scheduler(), namespace)
}

func putJobs(t *testing.T, jobs carillon.Jobs, namespace string) {
	t.Helper()
	for name, target := range map[string]carillon.Target{
		"dapr/app/app/job":           {Dapr: &carillon.DaprTarget{AppID: "app"}},
		"dapr/actor/type/id/monthly": {Dapr: &carillon.DaprTarget{AppID: "app", ActorType: "type", ActorID: "id"}},
		"daprs-own":                  {Worker: &carillon.WorkerTarget{Queue: "q"}},
	} {
		if _, err := jobs.PutJob(t.Context(), carillon.Job{Namespace: namespace, Name: name, Schedule: "@yearly",
			Target: target}); err != nil {
			t.Fatal(err)
		}
	}
}

// DeleteJobs implements [kubens.Jobs].
func (r *rig) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	r.mu.Lock()
	r.calls++
	broken := r.broken
	r.mu.Unlock()
	if broken != nil {
		return 0, broken
	}
	return r.node.Scheduler().DeleteJobs(ctx, namespace, prefix)
}

// breaks makes removing fail; nil: no more.
func (r *rig) breaks(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
}

// start begins to follow, and waits until there is nothing more to be done at once.
func (r *rig) start() {
	r.t.Helper()
	r.log.Reset()
	w, err := kubens.Watch(r.api.client(), kubens.Options{Jobs: r, File: r.file,
		Turn: func(context.Context) time.Duration { return r.turn }, Log: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		r.t.Fatal(err)
	}
	r.w = w
	r.pass(time.Second)
}

func (r *rig) stop() {
	if r.w != nil {
		r.w.Close()
		r.w = nil
	}
}

// pass lets time pass, and everything happen that is due by then.
func (r *rig) pass(d time.Duration) {
	<-time.After(d) // of the bubble
	synctest.Wait()
}

// wantGone checks of which namespaces Dapr's jobs are gone; all have those of others.
func (r *rig) wantGone(what string, names ...string) {
	r.t.Helper()
	for _, name := range []string{"a", "b", "never"} {
		want := []string{"dapr/actor/type/id/monthly", "dapr/app/app/job", "daprs-own"}
		if slices.Contains(names, name) {
			want = want[2:]
		}
		if got := namesOf(r.t, r.node.Scheduler(), name); !slices.Equal(got, want) {
			r.t.Errorf("%s: namespace %s has %q, want %q\n%s", what, name, got, want, r.log.String())
		}
	}
}

func (r *rig) wantLogged(says string) {
	r.t.Helper()
	if !strings.Contains(r.log.String(), says) {
		r.t.Errorf("%q is not in the log:\n%s", says, r.log.String())
	}
}

func namesOf(t *testing.T, jobs carillon.Jobs, namespace string) (names []string) {
	t.Helper()
	page, err := jobs.ListJobs(t.Context(), carillon.JobQuery{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		names = append(names, j.Name)
	}
	return names
}

func ab(t *testing.T) *api { return newAPI(t, "cluster-1", "a", "b") }

// everywhere is where the rig has jobs: "never" is no namespace of Kubernetes.
var everywhere = []string{"a", "b", "never"}

func TestDaprsJobsOfADeletedNamespaceGo(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.start()
		r.wantGone("at the start")
		r.api.remove("a")
		r.pass(time.Second)
		r.wantGone("after a was deleted", "a")
		if r.calls != 1 {
			t.Errorf("%d deletes", r.calls)
		}
		if text := r.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "namespace=a jobs=2") {
			t.Errorf("the log: %s", text)
		}
		r.api.create("a")
		r.put("a")
		r.pass(time.Hour)
		r.wantGone("after a was made again")
		r.api.remove("a")
		r.pass(time.Second)
		r.wantGone("after a was deleted again", "a")
	})
}

// TestDeletedUnheard: what is deleted while the watch is interrupted is found by the next list; what is there again by
// then is left alone.
func TestDeletedUnheard(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.start()
		r.api.change(func(uids map[string]string) {
			delete(uids, "a")
			uids["b"] = "another"
		})
		r.pass(time.Minute)
		r.wantGone("after an interruption", "a")
		if strings.Contains(r.log.String(), "cannot be followed") {
			t.Errorf("the log: %s", r.log.String())
		}
	})
}

// TestDeletedWhileNobodyWatched: the next start removes the jobs of the namespaces that it knows to have been there, of
// no others.
func TestDeletedWhileNobodyWatched(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.start()
		r.stop()
		r.api.remove("a")
		r.api.remove("b")
		r.api.create("b")
		r.start()
		r.wantGone("at the second start", "a")
		r.stop()

		r.put("a") // as if they were taken over from elsewhere
		r.start()
		r.wantGone("at the third start")
	})
}

// TestItGoesOnUntilDone: also over the end of a node.
func TestItGoesOnUntilDone(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.start()
		r.breaks(errors.New("the store is away"))
		r.api.remove("a")
		r.pass(time.Hour)
		if r.calls < 60 || r.calls > 80 {
			t.Errorf("%d attempts within an hour", r.calls)
		}
		if n := strings.Count(r.log.String(), "the store is away"); n != 6 {
			t.Errorf("%d lines of the log about it:\n%s", n, r.log.String())
		}
		r.stop()
		r.wantGone("while the store was away")
		r.breaks(nil)
		r.start()
		r.wantGone("at the next start", "a")

		r.breaks(errors.New("the store is away"))
		r.api.remove("b")
		r.pass(10 * time.Minute)
		r.breaks(nil)
		r.pass(time.Minute)
		r.wantGone("when the store was back", "a", "b")
	})
}

// TestNothingIsRemovedByMistake: whatever the API server says besides that it has no such namespace.
func TestNothingIsRemovedByMistake(t *testing.T) {
	for what, says := range map[string]func(name string) answer{
		"a proxy's page": func(string) answer { return answer{http.StatusNotFound, "text/html", "<h1>404 Not Found</h1>"} },
		"no body":        func(string) answer { return answer{code: http.StatusNotFound} },
		"forbidden":      func(name string) answer { return refusal(http.StatusForbidden, "Forbidden", name) },
		"in trouble":     func(name string) answer { return refusal(http.StatusInternalServerError, "InternalError", name) },
		"expired":        func(name string) answer { return refusal(http.StatusGone, "Gone", name) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, ab, everywhere, func(r *rig) {
				r.start()
				r.api.saying(func(name string) answer { return refusal(http.StatusForbidden, "Forbidden", name) })
				r.api.remove("a") // told, and taken back
				r.api.create("a")
				r.pass(10 * time.Minute)
				r.api.saying(says)
				r.api.change(func(uids map[string]string) { delete(uids, "a") })
				r.pass(30 * time.Minute)
				r.wantGone(what)
				if r.calls != 0 {
					t.Errorf("%d deletes", r.calls)
				}
				r.api.saying(nil)
				r.pass(5 * time.Minute)
				r.wantGone("then the truth", "a")
			})
		})
	}
}

// TestToldToBeDeleted: what the API server has told, and does not take back, is so, even if its list lacks kube-system
// and a question gets no answer of its own.
func TestToldToBeDeleted(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.start()
		for _, says := range []func(name string) answer{
			func(name string) answer { return refusal(http.StatusForbidden, "Forbidden", name) },
			func(name string) answer { return answer{http.StatusOK, "application/json", text(r.api.object(name))} },
		} {
			r.api.saying(says)
			r.api.remove("a")
			r.pass(30 * time.Minute)
			r.wantGone("the server says something else")
			r.api.create("a")
			r.pass(time.Minute)
		}
		r.api.saying(func(string) answer { return answer{code: http.StatusNotFound} })
		r.api.remove("a")
		r.pass(time.Second)
		r.wantGone("the server has no more to say", "a")
	})
	bubble(t, func(t *testing.T) *api { return newAPI(t, "", "a", "b") }, everywhere, func(r *rig) {
		r.start()
		r.api.remove("a")
		r.pass(time.Second)
		r.wantGone("no kube-system", "a")
		r.api.change(func(uids map[string]string) { delete(uids, "b") })
		r.pass(30 * time.Minute)
		r.wantGone("a list without b and kube-system", "a")

		r.put("a")
		r.api.saying(func(name string) answer { return refusal(http.StatusForbidden, "Forbidden", name) })
		r.api.create("a")
		r.api.remove("a")
		r.pass(time.Minute)
		r.api.create("a")
		r.pass(time.Hour)
		r.wantGone("a is there again")
	})
}

// TestWholeNamespaces: a server may send whole namespaces in place of their metadata, without saying what they are, and
// end each watch at once. So does the one of Dapr's own tests.
func TestWholeNamespaces(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.api.plain()
		r.start()
		r.wantGone("at the start")
		r.api.remove("a")
		r.pass(time.Minute)
		r.wantGone("after a was deleted", "a")
	})
}

// TestAnIncompleteListRemovesNothing: neither one without kube-system nor that of another cluster.
func TestAnIncompleteListRemovesNothing(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.start()
		r.api.change(func(uids map[string]string) { clear(uids) })
		r.pass(30 * time.Minute)
		r.wantGone("an empty list")
		r.wantLogged("lacks kube-system")
		r.api.change(func(uids map[string]string) { uids["kube-system"] = "cluster-2" })
		r.pass(30 * time.Minute)
		r.wantGone("another cluster while it runs")
		r.wantLogged("another cluster of Kubernetes than at the start")
		r.api.create("b")
		r.api.remove("b")
		r.pass(30 * time.Minute)
		r.wantGone("another cluster has told that b was deleted")
		r.stop()
		r.start()
		r.wantGone("another cluster at the start")
		r.wantLogged("another cluster of Kubernetes than before")
	})
	bubble(t, func(t *testing.T) *api { return newAPI(t, "", "a", "b") }, everywhere, func(r *rig) {
		r.start()
		r.api.change(func(uids map[string]string) { delete(uids, "a") })
		r.pass(30 * time.Minute)
		r.wantGone("no kube-system")
		r.wantLogged("lacks kube-system")
		if r.calls != 0 {
			t.Errorf("%d deletes", r.calls)
		}
	})
}

// TestWithoutRights: the log says so, now and then, and nothing is removed until it has them.
func TestWithoutRights(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.api.forbid(true)
		r.start()
		r.pass(time.Hour)
		if n := strings.Count(r.log.String(), "cannot be followed"); n != 6 && n != 7 {
			t.Errorf("%d lines of the log about it:\n%s", n, r.log.String())
		}
		r.api.forbid(false)
		r.pass(time.Minute)
		r.api.remove("a")
		r.pass(time.Second)
		r.wantGone("with rights", "a")
	})
}

// TestOthersGoFirst: a node leaves a namespace to those before it, once.
func TestOthersGoFirst(t *testing.T) {
	bubble(t, ab, everywhere, func(r *rig) {
		r.turn = time.Minute
		r.start()
		r.api.remove("a")
		r.pass(59 * time.Second)
		r.wantGone("before its turn")
		r.pass(time.Second)
		r.wantGone("at its turn", "a")

		r.api.remove("b")
		r.pass(30 * time.Second)
		r.api.create("b")
		r.pass(time.Hour)
		r.wantGone("if it was made again meanwhile", "a")
	})
}
