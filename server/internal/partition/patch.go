package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Patch changes the named fields of a job. at is the instant from which relative times count; 0 is now. waits
// are the waits for names that are new in its DependsOn; trace is that of the call.
func (js *Jobs) Patch(now, at int64, key carillon.Key, patch carillon.Patch,
	trace delivery.Trace, waits ...store.Wait) (carillon.PutResult, error) {
	e := js.records.find(key)
	switch {
	case e == nil:
		return carillon.PutResult{}, notFound(key)
	case patch.IfGeneration != 0 && patch.IfGeneration != e.state.Generation:
		return carillon.PutResult{}, otherGeneration(e)
	}
	old := *e.job()
	old.Paused = e.state.Paused
	j, err := patch.Apply(old)
	if err != nil {
		return carillon.PutResult{}, err
	}
	j.Namespace, j.Name = key.Namespace, key.Name
	if err := patch.ValidatePatched(&old, &j, js.cfg.Limits); err != nil {
		return carillon.PutResult{}, err
	}
	if s := js.cfg.Settings(key.Namespace); s != nil && s.Strict {
		if err := plan.CheckRetryWindow(&j); err != nil {
			return carillon.PutResult{}, err
		}
	}
	if err := js.fits(now, e, &j); err != nil {
		return carillon.PutResult{}, err
	}
	retimed := plan.Names(&patch, plan.EffectTimes) && replans(e, &old, &j)
	return js.edit(now, e, &message.PutRequest{Job: &j, At: at, Waits: waits, Trace: trace}, retimed)
}
