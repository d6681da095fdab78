package message

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// PutJob stores a job of the partition for a caller of another node; see [carillon.Jobs].
type PutJob struct {
	Job     carillon.Job
	Options carillon.PutOptions
	SeenAt  time.Time // when the other node saw the call: relative times count from then
}

// PutJobs stores a batch for a caller of another node. The partition is that of the first job, and
// coordinates the batch.
type PutJobs struct {
	Jobs   []carillon.Job
	SeenAt time.Time // see [PutJob]
}

// PatchJob changes a job of the partition for a caller of another node.
type PatchJob struct {
	Key    carillon.Key
	Patch  carillon.Patch
	SeenAt time.Time // see [PutJob]
}

// KeepsTimes asks whether putting the job would keep the times of the existing job of that name.
type KeepsTimes struct{ Job *carillon.Job }

// DeleteByPrefix removes the partition's jobs whose names have the prefix. The reply is how many.
type DeleteByPrefix struct{ Namespace, Prefix string }

// RedriveDead redrives the partition's dead runs of a job, or of the namespace if Job is empty. The reply is
// how many.
type RedriveDead struct{ Namespace, Job string }

// PauseQueue pauses or resumes a queue, in the partition that keeps which are paused. The reply is its pause
// from then on.
type PauseQueue struct {
	Queue  delivery.Queue
	Paused bool
	Note   string
}

// ChangeKey makes, rotates, marks or ends API keys, in the partition that keeps them: what of Create, Rotate
// and Uses is given; otherwise the key of the id is ended. The reply is whether there was one.
type ChangeKey struct {
	ID     string
	Create *access.Key
	First  bool        // it is made only if there is none yet; otherwise the reply is false
	Rotate *access.Key // as it becomes
	Was    access.Hash // of the secret that the key to rotate has
	Uses   []access.Use
}

// PurgeQueue cancels the partition's due runs that wait in a queue, as far as one call does.
type PurgeQueue struct {
	Queue  delivery.Queue
	DryRun bool
}

func (PutJob) message()         {}
func (PutJobs) message()        {}
func (PatchJob) message()       {}
func (KeepsTimes) message()     {}
func (DeleteByPrefix) message() {}
func (RedriveDead) message()    {}
func (PauseQueue) message()     {}
func (ChangeKey) message()      {}
func (PurgeQueue) message()     {}

func (PutJob) replies(carillon.PutResult)    {}
func (PutJobs) replies([]carillon.PutResult) {}
func (PatchJob) replies(carillon.PutResult)  {}
func (KeepsTimes) replies(bool)              {}
func (DeleteByPrefix) replies(int)           {}
func (RedriveDead) replies(int)              {}

func (PauseQueue) replies(carillon.QueuePause)  {}
func (ChangeKey) replies(bool)                  {}
func (PurgeQueue) replies(carillon.PurgeResult) {}

func (PutJob) once()   {}
func (PutJobs) once()  {}
func (PatchJob) once() {}
