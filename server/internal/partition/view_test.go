package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestAMissingJobHidesNothingElseThatIsAwaited(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Hour)})
	r.bring(keyOf("a"))
	r.m.Begin()
	if _, err := r.m.Jobs.Delete(r.now, keyOf("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Jobs.Delete(r.now, keyOf("b")); err == nil {
		t.Fatal("b does not exist")
	}
	if r.m.After() <= r.durable {
		t.Fatal("the delete would be acknowledged before it is durable")
	}
}
