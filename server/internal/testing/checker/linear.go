package checker

import (
	"cmp"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// register is a job as its clients see it: what a history of operations must be explained by, one after the
// other.
type register struct {
	exists    bool
	low, high uint64 // bounds of the generation
	payload   string
	known     bool // payload is
	paused    bool
	unsaid    bool // whether it is paused is not known
	ends      bool // it may be gone at any moment, by itself
}

// mostAdmin is the most operations of one job that are put in order: the search grows fast.
const mostAdmin = 400

// admin: S8, the operations on a job can be put in an order that explains every answer and agrees with real
// time.
func (c callRules) admin(j *job) {
	ops := make([]porcupine.Operation, 0, len(j.ops))
	open := int64(math.MinInt64)
	cut := 0
	for _, o := range c.turns(j) {
		if !ordered(o) || (o.Outcome == Info && o.changes() &&
			!slices.ContainsFunc(j.effects, func(e *effect) bool { return e.op == o })) {
			continue
		}
		p := porcupine.Operation{Input: c.told(o), Output: o.Outcome, Call: o.Invoke.UnixNano(),
			Return: o.Return.UnixNano()}
		if o.Outcome == Info {
			p.Return = math.MaxInt64
		}
		if p.Call > open {
			cut = len(ops) // all before it were over
		}
		if len(ops) == mostAdmin {
			c.warnf(j.String(), "only its first %d operations were put in order", cut)
			ops = ops[:cut]
			break
		}
		if ops = append(ops, p); o.Outcome != Info {
			open = max(open, p.Return)
		}
	}
	if len(ops) < 2+2*len(c.lapses.went) {
		return
	}
	c.v.Porcupine.Checked++
	switch porcupine.CheckOperationsTimeout(c.adminModel(), ops, cmp.Or(c.spec.Admin, adminTime)) {
	case porcupine.Illegal:
		c.addf("S8", j.String(), "no order of its %d operations explains their answers", len(ops))
	case porcupine.Unknown:
		c.v.Porcupine.Unknown++
		c.warnf(j.String(), "its %d operations could not be put in order in time", len(ops))
	}
}

// told is an operation as far as its answer tells of it. That to a batch may be of a time when its job had
// gone again.
func (c callRules) told(o *Op) *Op {
	if o.Kind != BatchPut || o.Outcome != OK || o.Answer.Generation != 0 || !c.readAfter(o, o.Invoke, o.Return) {
		return o
	}
	untold := *o
	untold.Outcome = Info
	return &untold
}

// ordered reports whether an operation says anything about a job's definition.
func ordered(o *Op) bool {
	switch {
	case o.Kind == keeps || o.Kind == goesBack:
		return true
	case o.defines() && o.Spec == nil:
		return false
	case o.Outcome == Fail:
		return o.NotFound || o.Refused
	case o.Outcome == Info:
		return o.changes() || o.Kind == Redrive
	}
	return o.changes() || o.Kind == Get || o.Kind == Redrive
}

// adminModel is what the operations of a job are held against.
func (c callRules) adminModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lines{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := state.(lines).step(input.(*Op), c.lapses.went)
			return ok, next
		},
	}
}

// step is what an operation makes of the register, and whether its answer is right.
func (s register) step(o *Op) (bool, register) {
	switch {
	case o.Outcome == Fail:
		return s.failed(o)
	case o.Kind == Redrive:
		return true, s.revived()
	case o.Kind == Get && !o.Answer.Found:
		return !s.exists || s.ends, register{}
	case o.Kind == DeletePrefix, o.Kind == Delete && o.Outcome == Info:
		return true, register{}
	case o.Kind == Delete:
		return s.exists, register{}
	case o.Outcome == Info:
		return true, s.unknown(o)
	case o.Kind == Get:
		return s.read(o)
	case o.Kind == Put || o.Kind == BatchPut:
		return s.put(o)
	}
	ok, s := s.at(o.Answer.Generation, o.Kind == Patch)
	return ok, s.set(o)
}

// revived is the register after a redrive. It may bring back a job that has ended, as it then was, until it
// ends again.
func (s register) revived() register {
	if s.exists && !s.ends {
		return s
	}
	return register{exists: true, low: 0, high: math.MaxInt64, ends: true, unsaid: true}
}

// failed: a refusal says that the job is there, or is not.
func (s register) failed(o *Op) (bool, register) {
	switch {
	case o.NotFound, o.IfGeneration != 0 && !s.exists:
		if s.exists && !s.ends {
			return false, s
		}
		return true, register{}
	case o.IfAbsent:
		return s.exists, s
	case o.IfGeneration != 0:
		return s.low != s.high || s.low != o.IfGeneration || s.ends, s
	}
	return true, s
}

// unknown is what an operation without an answer made of the register, if it was applied. If it was not, it
// comes after everything else.
func (s register) unknown(o *Op) register {
	if !o.defines() {
		return s.set(o)
	}
	switch {
	case o.Replace:
		s = register{low: 1, high: 1}
	case (o.Kind == Patch || o.IfGeneration != 0) && !s.exists, o.IfAbsent && s.exists && !s.ends:
		return s
	case !s.exists:
		s.low, s.high = 1, 1
	case s.ends:
		s.low, s.high = 1, s.high+1
	default:
		s.high++
	}
	s.exists = true
	return s.set(o)
}

// at narrows the generation to the one in an answer; bumped says that it may be one higher than before.
func (s register) at(generation uint64, bumped bool) (bool, register) {
	if !s.exists {
		return false, s
	}
	if bumped {
		s.high++
	}
	if generation == 0 {
		return true, s
	}
	ok := s.low <= generation && generation <= s.high
	s.low, s.high = generation, generation
	return ok, s
}

func (s register) read(o *Op) (bool, register) {
	ok, s := s.at(o.Answer.Generation, false)
	if s.known && o.Answer.Payload != s.payload {
		return false, s
	}
	if s.unsaid {
		return ok, s
	}
	return ok && o.Answer.Paused == s.paused, s
}

func (s register) put(o *Op) (bool, register) {
	gone := !s.exists || s.ends || o.Replace
	switch {
	case o.Answer.Created:
		return gone && o.IfGeneration == 0 && o.Answer.Generation <= 1,
			register{exists: true, low: 1, high: 1}.set(o)
	case !s.exists, o.IfAbsent:
		return false, s
	case o.IfGeneration != 0 && (o.IfGeneration < s.low || o.IfGeneration > s.high):
		return false, s
	}
	same := !o.Answer.Changed
	if same && s.known && s.payload != o.Spec.Payload {
		return false, s
	}
	ok, s := s.at(o.Answer.Generation, !same)
	return ok, s.set(o)
}

// set is the register after the operation has said what the job is, and whether it is paused.
func (s register) set(o *Op) register {
	e := effect{op: o}
	if paused, known := e.pauses(); known {
		s.paused, s.unsaid = paused, false
	}
	if !o.defines() {
		return s
	}
	if o.Kind != Patch || slices.Contains(o.Fields, "payload") {
		s.payload, s.known = o.Spec.Payload, true
	}
	if o.Kind != Patch {
		sched, err := parse(o.Spec.Schedule, o.Spec.Zone, o.Spec.Literal)
		s.ends = err != nil || endsByItself(o.Spec, sched)
	} else if o.retimes() || slices.Contains(o.Fields, "repeats") {
		s.ends = true
	}
	return s
}
