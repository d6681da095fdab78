package engine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAQuotaOfBytes counts the data of jobs, as it grows and shrinks.
func TestAQuotaOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		sized := func(i, bytes int) carillon.Job {
			j := shopJob(i)
			j.Data = carillon.Bytes(make([]byte, bytes), "")
			return j
		}
		if _, err := n.PutJob(ctx, sized(0, 400)); err != nil {
			t.Fatal(err)
		}
		putQuotas(t, n, carillon.Quotas{PayloadBytes: 1000})
		if _, err := n.PutJob(ctx, sized(1, 500)); err != nil {
			t.Fatal(err)
		}
		_, err := n.PutJob(ctx, sized(2, 101))
		over(t, err, "quotas.payload_bytes", `namespace "shop" has 900 of 1,000 bytes of data, and 101 more`)
		_, err = n.PatchJob(ctx, carillon.Key{Namespace: "shop", Name: "j1"},
			carillon.Patch{Fields: []string{"data"}, Job: sized(1, 601)})
		over(t, err, "quotas.payload_bytes", "101 more")
		for _, j := range []carillon.Job{sized(2, 0), sized(0, 100), sized(1, 900)} {
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Error(err)
			}
		}
		if ns, err := n.GetNamespace(ctx, "shop"); err != nil || *ns.Used != shopHas(t, s) ||
			*ns.Used != (carillon.Usage{Jobs: 3, PayloadBytes: 1000}) {
			t.Errorf("got %+v, %v", ns.Used, err)
		}
		n.stop()
	})
}
