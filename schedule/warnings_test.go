package schedule_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/schedule"
)

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		expr string
		want []string // parts of the warnings
	}{
		{"*/15 9-17 * * MON-FRI", nil},
		{"@daily", nil},
		{"@every 90s", nil},
		{"R4/PT1H", nil},
		{"0 0 1 * ?", nil},
		{"0 0 1-7 * +MON", nil},
		{"*/60 * * * *", nil},
		{"*/61 * * * *", []string{"minute: the step of */61 is longer"}},
		{"0 0 * * */20", []string{"day of week: the step of */20"}},
		{"TZ=Europe/Paris 0 0 0 */40 * ? 2030/500",
			[]string{"day of month: the step of */40", "year: the step of 2030/500"}},
		{"1,2/70,3/80 * * * *", []string{"2/70", "3/80"}},
		{"0 0 13 * FRI", []string{"either is enough; write +FRI"}},
		{"0 0 0 13 * FRI 2030", []string{"write +FRI"}},
		{"0 0 */2 * */2", []string{"write +*/2"}},
	} {
		got := parsed(t, c.expr, schedule.Options{}).Warnings()
		if len(got) != len(c.want) {
			t.Errorf("%q: got %q, want %q", c.expr, got, c.want)
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(got[i], part) {
				t.Errorf("%q: got %q, want a warning with %q", c.expr, got[i], part)
			}
		}
	}
}
