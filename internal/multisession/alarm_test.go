package multisession

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// rings returns when an alarm rang while it was used, from the beginning on.
func rings(t *testing.T, use func(a *alarm)) (at []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var a *alarm
		a = newAlarm(func() {
			at = append(at, time.Since(began))
			a.rang()
		})
		use(a)
		<-time.After(2 * time.Hour)
		synctest.Wait()
		a.stop()
	})
	return at
}

func TestAlarmRingsOnceWhenArmed(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(a *alarm)
		want []time.Duration
	}{
		"not armed":             {func(*alarm) {}, nil},
		"armed":                 {func(a *alarm) { a.arm(time.Second) }, []time.Duration{time.Second}},
		"armed again meanwhile": {func(a *alarm) { a.arm(time.Second); a.arm(time.Minute) }, []time.Duration{time.Second}},
		"armed again afterwards": {func(a *alarm) {
			a.arm(time.Second)
			<-time.After(time.Minute)
			a.arm(time.Second)
		}, []time.Duration{time.Second, time.Minute + time.Second}},
		"stopped": {func(a *alarm) { a.arm(time.Second); a.stop() }, nil},
	} {
		got := rings(t, c.use)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: it rang at %v, want %v", name, got, c.want)
		}
	}
}
