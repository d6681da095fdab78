package partition

// When more is due than fits into memory, as after a start, records are not read in the order of their times.
// The highest priority that has a backlog gets most of the window, so that it goes first. Each lower one gets
// a share of the window in which its runs age.

// backlog returns which priority to read next, and how many records, while times are due that are not in
// memory; ok is false if there are none.
func (w *Window) backlog(now int64) (class, page int, ok bool) {
	var late [priorities]bool
	top, others := -1, 0
	for c := range priorities {
		if w.frontier[c].Due > now {
			continue
		}
		late[c] = true
		if top < 0 {
			top = c
		} else {
			others++
		}
	}
	if top < 0 {
		return 0, 0, false
	}
	if w.contents.full() {
		return top, 0, true
	}
	w.tick(now) // so that the records just read are counted
	share := max(1, w.cfg.WindowJobs/(4*priorities))
	waiting := w.due.byPriority()
	if page := w.topPage(top, waiting[top], others*share, now); page > 0 {
		return top, page, true
	}
	for c := top + 1; c < priorities; c++ {
		if page := min(share-waiting[c], w.most()); late[c] && waiting[c] <= share/2 && page > 0 {
			return c, page, true
		}
	}
	return top, 0, true
}

// topPage returns how many records to read of the highest priority with a backlog. have is how many of it are
// due in memory. It fills the room beside the shares of the others. If it runs low while others fill the
// window, it gets a little more than that.
func (w *Window) topPage(class, have, reserved int, now int64) int {
	low := max(1, w.cfg.WindowJobs/8)
	if w.room()-reserved < low {
		w.retreat(w.frontier[class], now)
	}
	if free := min(w.room()-reserved, loadPage); free >= max(1, w.cfg.WindowJobs/4) {
		return free
	}
	if have >= low {
		return 0
	}
	return min(2*low-have, w.most())
}

// most returns how many more records may come into memory for the sake of their priority.
func (w *Window) most() int { return w.cfg.WindowJobs + w.cfg.WindowJobs/4 - w.waiting() }

// nowOf returns how many of a queue's runs may be handed out before more of the backlog is read. If runs of a
// priority wait in it that has more due than is in memory, no run of a lower priority may. short is the
// priority that memory has run out of.
func (w *Window) nowOf(q *queue, short int, now int64) int {
	n := 0
	for c := range priorities {
		n += q.of(c)
		if c == short || (n > 0 && w.frontier[c].Due <= now) {
			return n
		}
	}
	return n
}

// short returns the highest priority with a backlog if, for want of room, none of it is in memory and a batch
// in flight will make room; otherwise -1. Lower priorities wait for that batch.
func (w *Window) short(now int64) int {
	if len(w.out.flight) == 0 && len(w.out.changed) == 0 && len(w.out.sealed) == 0 {
		return -1
	}
	for c := range priorities {
		if w.frontier[c].Due > now {
			continue
		}
		if w.most() > 0 || w.due.byPriority()[c] > 0 {
			return -1
		}
		return c
	}
	return -1
}

// Lagging reports whether times are due that have not been read although there is room for them.
func (w *Window) Lagging(now int64) bool {
	_, page, ok := w.backlog(now)
	return ok && page > 0
}
