package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/memory"
)

// quotaFleet is three nodes with eight partitions and a namespace shop that has quotas, which all of them know.
func quotaFleet(t *testing.T, q carillon.Quotas) *fleet {
	t.Helper()
	f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 3, nil)
	f.deal(func(p int) int { return p % 3 })
	f.settled()
	f.setShop(q)
	return f
}

// setShop sets quotas, and waits until all nodes know, since nothing is announced here.
func (f *fleet) setShop(q carillon.Quotas) {
	f.t.Helper()
	putShopQuotas(f.t, f, q)
	time.Sleep(6 * time.Second)
}

func (f *fleet) getShop() (carillon.Namespace, error) {
	return route(context.Background(), f, func(n *node) (carillon.Namespace, error) {
		return n.GetNamespace(context.Background(), "shop")
	})
}

// counts are the stamps of the questions of what partitions of other nodes have.
type counts struct {
	sync.Mutex
	stamps []message.Stamp
	err    error // that they get
}

func (c *counts) see(_ int, m message.Message) error {
	q, is := m.(message.CountUsage)
	if !is {
		return nil
	}
	c.Lock()
	defer c.Unlock()
	c.stamps = append(c.stamps, q.Stamp)
	return c.err
}

func (c *counts) seen() []message.Stamp {
	c.Lock()
	defer c.Unlock()
	return slices.Clone(c.stamps)
}

// TestWhatIsUsedIsReadWithoutHarm: a get of settings takes no room back from partitions, and succeeds, without
// what is used, while one of them does not answer.
func TestWhatIsUsedIsReadWithoutHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := quotaFleet(t, carillon.Quotas{Jobs: 1000})
		for i := range 10 {
			if _, err := routePut(context.Background(), f, shopJob(i)); err != nil {
				t.Fatal(err)
			}
		}
		var c counts
		f.intercept(c.see)
		ns, err := f.getShop()
		if err != nil || ns.Used == nil || ns.Used.Jobs != 10 {
			t.Errorf("%+v, %v", ns.Used, err)
		}
		if seen := c.seen(); len(seen) == 0 || slices.ContainsFunc(seen, func(s message.Stamp) bool {
			return s != message.Stamp{}
		}) {
			t.Errorf("partitions were asked with %v", seen)
		}
		c.err = carillon.Errorf(carillon.Unavailable, "", "lost")
		ns, err = f.getShop()
		if err != nil || ns.Quotas.Jobs != 1000 || ns.Used != nil {
			t.Errorf("%+v, %v", ns, err)
		}
		f.stop()
	})
}

// TestAQuotaThatWasLiftedCountsAgain: what was put meanwhile is counted, also if not all partitions hear at
// once that there is a quota again.
func TestAQuotaThatWasLiftedCountsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := quotaFleet(t, carillon.Quotas{Jobs: 30})
		put := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				if _, err := routePut(context.Background(), f, shopJob(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(0, 10)
		f.setShop(carillon.Quotas{Puts: carillon.Rate{Count: 1000}})
		put(10, 40)
		f.intercept((&counts{err: carillon.Errorf(carillon.Unavailable, "", "lost")}).see)
		f.setShop(carillon.Quotas{Jobs: 45})
		f.intercept(nil)
		f.fills(45, 40)
		f.stop()
	})
}

// TestOtherSettingsLeaveQuotasAlone: who puts settings whose quotas are as they were waits for nobody.
func TestOtherSettingsLeaveQuotasAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := quotaFleet(t, carillon.Quotas{Jobs: 1000})
		var c counts
		f.intercept(c.see)
		set := func(n carillon.Namespace) int {
			t.Helper()
			before := len(c.seen())
			if _, err := route(context.Background(), f, func(node *node) (carillon.Namespace, error) {
				return node.PutNamespace(context.Background(), n)
			}); err != nil {
				t.Fatal(err)
			}
			return len(c.seen()) - before
		}
		n := carillon.Namespace{Name: "shop", Strict: true, Quotas: carillon.Quotas{Jobs: 1000}}
		if asked := set(n); asked != 0 {
			t.Errorf("partitions were asked %d times", asked)
		}
		n.Quotas.Puts = carillon.Rate{Count: 1000}
		if asked := set(n); asked != 0 {
			t.Errorf("for a rate, partitions were asked %d times", asked)
		}
		if n.Quotas.Jobs = 900; set(n) == 0 {
			t.Error("for a quota of jobs, partitions were not asked")
		}
		f.stop()
	})
}

// TestWhoReadsWhatIsUsedAsksSeldom: however often settings are got, all partitions are asked once in a second.
func TestWhoReadsWhatIsUsedAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds = 10
		f := quotaFleet(t, carillon.Quotas{Jobs: 10})
		var c counts
		f.intercept(c.see)
		for until := time.Now().Add(seconds * time.Second); time.Now().Before(until); {
			if ns, err := f.getShop(); err != nil || ns.Used == nil {
				t.Fatalf("%+v, %v", ns, err)
			}
		}
		// A question is seen at each node that is asked until one has the partition.
		if most, seen := 2*(seconds+2)*len(f.all), len(c.seen()); seen == 0 || seen > most {
			t.Errorf("in %d s %d questions were seen, want %d at most", seconds, seen, most)
		}
		f.stop()
	})
}
