package message

import (
	"time"

	"github.com/carillonhq/carillon"
)

// Command is a change that may come again: the partition remembers its request, in the store batch that does
// it, until [ForgetCommands] or for a time. The reply says whether it was done before; then nothing is
// changed. A delete of a job that does not exist is done, too, unless it names a generation. A command that
// is refused is not remembered, unless whoever gave it then has it refused for good: the same command with
// Refusal. From then on it is answered with that error, whoever asks, unless it was done before.
//
// It is the first of Refusal, Job, Trigger and Complete that is given; if none is, the job is deleted.
type Command struct {
	Request string        // names the command among all that there ever are; 1 to MaxRequest bytes
	Key     carillon.Key  // of the job; for Complete only its namespace
	SeenAt  time.Time     // see [PutJob]
	KeepFor time.Duration // how long it is remembered; 0: until ForgetCommands. At most MaxKeepFor

	Job          *carillon.Job // to put
	IfAbsent     bool          // see [carillon.PutOptions]
	IfGeneration uint64        // of a put or a delete; see [carillon.PutOptions]
	// Trigger makes a run of the job.
	Trigger *carillon.TriggerOptions
	// Complete is the result of an attempt. The partition is that of its token.
	Complete *carillon.Result
	// Refusal is why the command is not done, ever. Its kind, field and message are kept, the
	// message up to MaxRefusal bytes.
	Refusal *carillon.Error
}

// Commands are several commands of one partition that came together: puts, deletes and triggers. They are
// done in order, in one round of the partition. One that is not done has no effect on the others. The reply,
// which waits until all that is done is durable, has a decision for each.
type Commands struct{ Commands []Command }

// MaxCommands is the most commands of one message.
const MaxCommands = 256

// Decision is what became of one of several commands.
type Decision uint8

// The decisions. Why a command is open is told to whoever gives it alone.
const (
	Open     Decision = iota // it is not done, or that is not known: give it alone
	Done                     // it is done
	Repeated                 // it was done before, and nothing has changed
	Apart                    // it was not tried, since it takes its time: give it alone; no other node says so
)

// MaxRefusal is the most bytes of the message of a refusal that are kept.
const MaxRefusal = 1024

// NewRefusal returns a refusal by the name of its kind; one that is not known is Internal.
func NewRefusal(kind, field, text string) *carillon.Error {
	e := &carillon.Error{Field: field, Message: text}
	for k := range carillon.DataLoss + 1 {
		if k.String() == kind {
			e.Kind = k
		}
	}
	return e
}

// MaxKeepFor is the longest time that a command can be remembered for.
const MaxKeepFor = 7 * 24 * time.Hour

// MaxRequest is the most bytes of the name of a command.
const MaxRequest = 128

// ForgetCommands has commands forgotten that will not come again. Those of one message are of one partition.
// What is not remembered is skipped.
type ForgetCommands struct{ Commands []CommandID }

// CommandID names a command that was done.
type CommandID struct {
	Key     carillon.Key // of the job, which tells the partition
	Request string
}

func (Command) message()        {}
func (Commands) message()       {}
func (ForgetCommands) message() {}

func (Command) replies(bool)            {}
func (Commands) replies([]Decision)     {}
func (ForgetCommands) replies(struct{}) {}
