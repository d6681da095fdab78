package multisession

import "time"

// alarm calls a function after a while. The session's lock guards it; the function takes that lock, and calls
// rang.
type alarm struct {
	timer *time.Timer
	armed bool
}

func newAlarm(f func()) *alarm {
	a := &alarm{timer: time.AfterFunc(time.Hour, f)}
	a.timer.Stop()
	return a
}

// arm has the function called after a while, or sooner if it is due sooner already.
func (a *alarm) arm(after time.Duration) {
	if !a.armed {
		a.armed = true
		a.timer.Reset(after)
	}
}

// rang records that the function was called.
func (a *alarm) rang() { a.armed = false }

// stop prevents further calls; one may be under way.
func (a *alarm) stop() { a.timer.Stop() }
