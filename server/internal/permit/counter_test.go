package permit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestCounterKeepsTheLimit: whatever partitions do, there are no more attempts in force than the limit, and
// none waits while a permit is neither in force nor reserved.
func TestCounterKeepsTheLimit(t *testing.T) {
	const limit, partitions, lines = 3, 3, 2
	key := delivery.Limit{Namespace: "ns", Key: "k"}
	lineOf := func(i int) delivery.Line {
		return delivery.Line{Limit: key, Queue: delivery.Queue{Kind: "worker", Address: string(rune('a' + i))}}
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var inForce [partitions]int
		sum := 0
		c := NewCounter(func(delivery.Limit) (int, bool) { return limit, true }, func(int, delivery.Line, int) {})
		for step := range 300 {
			p := rng.IntN(partitions)
			line := lineOf(rng.IntN(lines))
			switch rng.IntN(8) {
			case 0, 1:
				if ok, limited := c.Take(p, line); !limited {
					t.Fatal("the key is not limited")
				} else if ok {
					inForce[p]++
					sum++
				}
			case 2, 3:
				if inForce[p] > 0 {
					inForce[p]--
					sum--
					c.Free(p, key)
				}
			case 4:
				c.Wait(p, line, rng.Int64N(10), 1+rng.IntN(3))
			case 5:
				c.Pass(p, line)
			case 6:
				c.Leave(p, line)
			case 7:
				c.Abandon(p)
				c.Charge(p, slices.Repeat([]delivery.Limit{key}, inForce[p]))
			}
			reserved := 0
			for p := range partitions {
				for i := range lines {
					reserved += c.reserved(p, lineOf(i))
				}
			}
			if used, want := c.state(key); used != sum+reserved || used > limit || used < limit && want > 0 {
				t.Fatalf("seed %d, step %d: %d in force, %d reserved, %d of %d used, %d wanted", seed, step, sum,
					reserved, used, limit, want)
			}
		}
		for p, n := range inForce {
			c.Abandon(p)
			for range n {
				c.Free(p, key)
			}
		}
		if left := c.Left(); left != "" {
			t.Fatalf("seed %d: all have gone, left is %s", seed, left)
		}
	}
}

func TestCounterServesTheBestRunFirst(t *testing.T) {
	key := delivery.Limit{Namespace: "ns", Key: "k"}
	line := delivery.Line{Limit: key, Queue: delivery.Queue{Kind: "worker", Address: "q"}}
	var told []int
	c := NewCounter(func(delivery.Limit) (int, bool) { return 1, true }, func(p int, _ delivery.Line, n int) {
		if n != 1 {
			t.Errorf("partition %d is told of %d", p, n)
		}
		told = append(told, p)
	})
	c.Take(0, line)
	for p, order := range []int64{1: 30, 2: 10, 3: 20, 4: 10} {
		if p > 0 {
			c.Wait(p, line, order, 1)
		}
	}
	for i, p := range []int{0, 2, 4, 3, 1} {
		if i > 0 { // the permit is reserved for it alone
			if ok, _ := c.Take(0, line); ok {
				t.Fatal("a partition that did not wait took a reserved permit")
			}
			if ok, _ := c.Take(p, line); !ok {
				t.Fatalf("partition %d cannot take what is reserved for it", p)
			}
		}
		c.Free(p, key)
	}
	if !slices.Equal(told, []int{2, 4, 3, 1}) {
		t.Errorf("the order was %v", told)
	}
}

func TestCounterServesAllWhenALimitIsLifted(t *testing.T) {
	key := delivery.Limit{Namespace: "ns", Key: "k"}
	line := delivery.Line{Limit: key, Queue: delivery.Queue{Kind: "worker", Address: "q"}}
	limited, told := true, 0
	c := NewCounter(func(delivery.Limit) (int, bool) { return 0, limited },
		func(_ int, _ delivery.Line, n int) { told += n })
	c.Wait(1, line, 1, 5)
	c.Wait(2, line, 2, 7)
	if told != 0 {
		t.Fatalf("%d were told although the limit is 0", told)
	}
	limited = false
	if c.Changed("other"); told != 0 {
		t.Fatalf("%d were told when another namespace changed", told)
	}
	if c.Changed("ns"); told != 12 {
		t.Errorf("%d were told, want 12", told)
	}
}
