package multisession

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// use is what a test does with an alarm.
type use func(arm func(time.Duration), stop func())

// rings returns when an alarm rang while it was used, from the beginning on. As in a session, a lock guards
// it.
func rings(t *testing.T, do use) (at []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var a *alarm
		a = newAlarm(func() {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
			a.rang()
		})
		do(func(after time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			a.arm(after)
		}, a.stop)
		<-time.After(2 * time.Hour)
		a.stop()
		mu.Lock() // what rang has returned
		defer mu.Unlock()
	})
	return at
}

func TestAlarmRingsOnceWhenArmed(t *testing.T) {
	for name, c := range map[string]struct {
		do   use
		want []time.Duration
	}{
		"not armed": {func(func(time.Duration), func()) {}, nil},
		"armed":     {func(arm func(time.Duration), _ func()) { arm(time.Second) }, []time.Duration{time.Second}},
		"armed again meanwhile": {func(arm func(time.Duration), _ func()) {
			arm(time.Second)
			arm(time.Minute)
		}, []time.Duration{time.Second}},
		"armed again afterwards": {func(arm func(time.Duration), _ func()) {
			arm(time.Second)
			<-time.After(time.Minute)
			arm(time.Second)
		}, []time.Duration{time.Second, time.Minute + time.Second}},
		"stopped": {func(arm func(time.Duration), stop func()) { arm(time.Second); stop() }, nil},
	} {
		got := rings(t, c.do)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: it rang at %v, want %v", name, got, c.want)
		}
	}
}
