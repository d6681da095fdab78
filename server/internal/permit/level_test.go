package permit

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/ratebucket"
)

// TestALevelIsTakenOver: what came in since it was written counts, less by what clocks may differ.
func TestALevelIsTakenOver(t *testing.T) {
	rate := carillon.Rate{Count: 1, Period: time.Minute, Burst: 10}
	b := ratebucket.New(rate, 0)
	b.Take(10)
	b.Fill(int64(90*time.Second), rate)
	l := levelOf(b, int64(time.Hour-90*time.Second))
	l.Limit.Key = "\x02k"
	r := l.Record()
	read, ok := permitrecord.ParseLevel(&r)
	if !ok || read != l {
		t.Fatalf("%+v was read as %+v", l, read)
	}
	const boot = int64(7)
	for after, want := range map[time.Duration]int64{0: 1, 32*time.Second - 1: 1, 32 * time.Second: 2, 92 * time.Second: 3,
		time.Hour: 10, -time.Hour: 1} {
		again := loaded(&read, boot, int64(time.Hour+after))
		if again.Fill(boot, rate); again.Level() != want {
			t.Errorf("%v later it has %d, want %d", after, again.Level(), want)
		}
	}
	again := loaded(&read, boot, int64(time.Hour))
	again.Fill(boot, carillon.Rate{Count: 1, Period: time.Hour, Burst: 10})
	if at, ok := again.Next(1); !ok || at != boot+int64(30*time.Minute) {
		t.Errorf("half a token of another rate is full at %d, %v", at, ok)
	}
}
