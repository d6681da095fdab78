package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestEveryEnumValue: each word of an enum and its value in the proto, both ways, and none left out on either
// side.
func TestEveryEnumValue(t *testing.T) {
	checkEnum(t, pb.DaylightSaving_name, map[carillon.DST]pb.DaylightSaving{
		carillon.DSTSafe:    pb.DaylightSaving_DAYLIGHT_SAVING_SAFE,
		carillon.DSTLiteral: pb.DaylightSaving_DAYLIGHT_SAVING_LITERAL,
	})
	checkEnum(t, pb.Overlap_name, map[carillon.Overlap]pb.Overlap{
		carillon.OverlapSerial:  pb.Overlap_OVERLAP_SERIAL,
		carillon.OverlapSkip:    pb.Overlap_OVERLAP_SKIP,
		carillon.OverlapAllow:   pb.Overlap_OVERLAP_ALLOW,
		carillon.OverlapReplace: pb.Overlap_OVERLAP_REPLACE,
	})
	checkEnum(t, pb.Misfire_name, map[carillon.MisfireRule]pb.Misfire{
		carillon.MisfireLatest: pb.Misfire_MISFIRE_LATEST,
		carillon.MisfireAll:    pb.Misfire_MISFIRE_ALL,
		carillon.MisfireSkip:   pb.Misfire_MISFIRE_SKIP,
	})
	checkEnum(t, pb.Priority_name, map[carillon.Priority]pb.Priority{
		carillon.PriorityNormal:   pb.Priority_PRIORITY_NORMAL,
		carillon.PriorityCritical: pb.Priority_PRIORITY_CRITICAL,
		carillon.PriorityHigh:     pb.Priority_PRIORITY_HIGH,
		carillon.PriorityLow:      pb.Priority_PRIORITY_LOW,
	})
	checkEnum(t, pb.Phase_name, map[carillon.Phase]pb.Phase{
		carillon.PhaseScheduled: pb.Phase_PHASE_SCHEDULED,
		carillon.PhaseReady:     pb.Phase_PHASE_READY,
		carillon.PhaseStaged:    pb.Phase_PHASE_STAGED,
		carillon.PhaseRunning:   pb.Phase_PHASE_RUNNING,
		carillon.PhaseRetrying:  pb.Phase_PHASE_RETRYING,
		carillon.PhasePaused:    pb.Phase_PHASE_PAUSED,
		carillon.PhaseWaiting:   pb.Phase_PHASE_WAITING,
	})
	checkEnum(t, pb.Cause_name, map[carillon.Cause]pb.Cause{
		carillon.CauseSchedule: pb.Cause_CAUSE_SCHEDULE,
		carillon.CauseTrigger:  pb.Cause_CAUSE_TRIGGER,
		carillon.CauseBackfill: pb.Cause_CAUSE_BACKFILL,
	})
	checkEnum(t, pb.RunStatus_name, map[carillon.RunStatus]pb.RunStatus{
		carillon.RunScheduled: pb.RunStatus_RUN_STATUS_SCHEDULED,
		carillon.RunStaged:    pb.RunStatus_RUN_STATUS_STAGED,
		carillon.RunRunning:   pb.RunStatus_RUN_STATUS_RUNNING,
		carillon.RunRetrying:  pb.RunStatus_RUN_STATUS_RETRYING,
		carillon.RunSucceeded: pb.RunStatus_RUN_STATUS_SUCCEEDED,
		carillon.RunFailed:    pb.RunStatus_RUN_STATUS_FAILED,
		carillon.RunDead:      pb.RunStatus_RUN_STATUS_DEAD,
		carillon.RunCancelled: pb.RunStatus_RUN_STATUS_CANCELLED,
		carillon.RunSkipped:   pb.RunStatus_RUN_STATUS_SKIPPED,
	})
	checkEnum(t, pb.Outcome_name, map[carillon.Outcome]pb.Outcome{
		carillon.OutcomeFailure:    pb.Outcome_OUTCOME_FAILURE,
		carillon.OutcomeSuccess:    pb.Outcome_OUTCOME_SUCCESS,
		carillon.OutcomeProgress:   pb.Outcome_OUTCOME_PROGRESS,
		carillon.OutcomeReschedule: pb.Outcome_OUTCOME_RESCHEDULE,
	})
	checkEnum(t, pb.BackfillStatus_name, map[carillon.BackfillStatus]pb.BackfillStatus{
		carillon.BackfillRunning:   pb.BackfillStatus_BACKFILL_STATUS_RUNNING,
		carillon.BackfillDone:      pb.BackfillStatus_BACKFILL_STATUS_DONE,
		carillon.BackfillCancelled: pb.BackfillStatus_BACKFILL_STATUS_CANCELLED,
	})
	for w, p := range map[carillon.OnExhausted]pb.OnExhausted{
		carillon.ExhaustedDefault: pb.OnExhausted_ON_EXHAUSTED_UNSPECIFIED,
		carillon.ExhaustedDead:    pb.OnExhausted_ON_EXHAUSTED_DEAD,
		carillon.ExhaustedDrop:    pb.OnExhausted_ON_EXHAUSTED_DROP,
	} {
		if pb.OnExhausted(w) != p {
			t.Errorf("on_exhausted %d is %v, want %v", w, pb.OnExhausted(w), p)
		}
	}
}

func checkEnum[W interface {
	~uint8
	fmt.Stringer
}, P ~int32](t *testing.T, names map[int32]string, pairs map[W]P) {
	t.Helper()
	if len(pairs) != len(names)-1 {
		t.Errorf("%d words, %d values in the proto besides unspecified", len(pairs), len(names)-1)
	}
	for w, p := range pairs {
		if !strings.HasSuffix(strings.ToLower(names[int32(p)]), "_"+w.String()) {
			t.Errorf("%s is %q in the words", names[int32(p)], w)
		}
		if got := enumTo[P](w); got != p {
			t.Errorf("%s crossed as %s", names[int32(p)], names[int32(got)])
		}
		var f first
		if back := enumFrom[W](&f, p, names, "field"); f.err != nil || back != w {
			t.Errorf("%s came back as %d, want %d (%v)", names[int32(p)], back, w, f.err)
		}
	}
	var f first
	if enumFrom[W](&f, P(len(names)), names, "field"); carillon.KindOf(f.err) != carillon.InvalidArgument {
		t.Errorf("a value of a later version gave %v", f.err)
	}
}
