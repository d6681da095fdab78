package dispatch

import "container/heap"

// waiting is a heap of the claims of waiting partitions, the best head first.
type waiting []*claim

func (w *waiting) push(c *claim) { heap.Push((*order)(w), c) }

// remove removes c if it waits.
func (w *waiting) remove(c *claim) {
	if c.at >= 0 {
		heap.Remove((*order)(w), int(c.at))
	}
}

// order implements heap.Interface for waiting. Equal heads are ordered by partition, so that the order is
// fixed.
type order []*claim

func (o *order) Len() int { return len(*o) }

func (o *order) Less(i, j int) bool {
	a, b := (*o)[i], (*o)[j]
	if a.head != b.head {
		return a.head.Before(b.head)
	}
	return a.p.Partition < b.p.Partition
}

func (o *order) Swap(i, j int) {
	w := *o
	w[i], w[j] = w[j], w[i]
	w[i].at, w[j].at = int32(i), int32(j)
}

// Push implements heap.Interface.
func (o *order) Push(x any) {
	c := x.(*claim)
	c.at = int32(len(*o))
	*o = append(*o, c)
}

// Pop implements heap.Interface.
func (o *order) Pop() any {
	w := *o
	c := w[len(w)-1]
	w[len(w)-1] = nil
	*o = w[:len(w)-1]
	c.at = -1
	return c
}
