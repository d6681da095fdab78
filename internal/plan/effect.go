package plan

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
)

// Effect is what changing a field of a job does to its unfinished runs and its coming times.
type Effect uint8

// The effects. Each includes those before it, except the first.
const (
	// EffectNone: the attempt in force goes on, and no time changes.
	EffectNone Effect = iota + 1
	// EffectFence: unfinished runs go on under their ids with the new content; an attempt in force ends in
	// favour of the next.
	EffectFence
	// EffectNext: the next time is computed again. What was counted so far stays: the phase, the end of life,
	// the repeats.
	EffectNext
	// EffectTimes: the times are counted from the change on, as after a put.
	EffectTimes
)

// effects has every field that a patch may name.
var effects = map[string]Effect{
	"schedule":        EffectTimes,
	"time_zone":       EffectTimes,
	"dst":             EffectNext,
	"except":          EffectNone,
	"only":            EffectNone,
	"due_time":        EffectTimes,
	"repeats":         EffectNext,
	"ttl":             EffectTimes,
	"jitter":          EffectFence,
	"data":            EffectFence,
	"payload":         EffectFence,
	"content_type":    EffectFence,
	"metadata":        EffectFence,
	"labels":          EffectNone,
	"target":          EffectFence,
	"failure_policy":  EffectFence,
	"timeout":         EffectFence,
	"lease":           EffectFence,
	"overlap":         EffectFence,
	"misfire":         EffectFence,
	"catch_up_limit":  EffectFence,
	"catch_up_window": EffectFence,
	"priority":        EffectNone,
	"concurrency_key": EffectFence,
	"depends_on":      EffectNone,
	"paused":          EffectNone,
	"note":            EffectNone,
	"history":         EffectNone,
}

// EffectOf returns the effect of changing a field, or a part of it; 0 if a patch cannot name it.
func EffectOf(path string) Effect {
	field, _, isPart := strings.Cut(path, ".")
	if isPart && !slices.Contains(carillon.PatchParts(), path) {
		return 0
	}
	return effects[field]
}

// Names reports whether the patch names a field with the effect, whether or not it changes the field.
func Names(p *carillon.Patch, effect Effect) bool {
	return slices.ContainsFunc(p.Fields, func(name string) bool { return EffectOf(name) == effect })
}

// Content returns the job without the fields whose change has [EffectNone]: what its runs are made of. That
// leaves out the part of the failure policy that is about the job as a whole.
func Content(j carillon.Job) carillon.Job {
	j.FailurePolicy.PauseAfter = 0
	j.Calendars.Except, j.Calendars.Only = nil, nil
	j.Labels, j.Priority, j.DependsOn, j.Paused, j.Note, j.History = nil, 0, nil, false, "", carillon.History{}
	return j
}
