package dispatch

import "slices"

// waiting lists the claims of waiting partitions, the best head first. Equal heads are ordered by partition,
// so that the order is fixed. There are at most as many as the store has partitions.
type waiting []*claim

func (c *claim) compare(o *claim) int {
	if c.head == o.head {
		return c.p.Partition - o.p.Partition
	}
	return c.head.Compare(o.head)
}

func (w *waiting) push(c *claim) {
	i, _ := slices.BinarySearchFunc(*w, c, (*claim).compare)
	*w = slices.Insert(*w, i, c)
}

// remove removes c if it waits. Its head must be as when it was pushed.
func (w *waiting) remove(c *claim) {
	if i, waits := slices.BinarySearchFunc(*w, c, (*claim).compare); waits {
		*w = slices.Delete(*w, i, i+1)
	}
}
