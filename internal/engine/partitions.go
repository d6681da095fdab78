package engine

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// ErrNotOwner: this node does not own the partition that a call is for. It is within an Unavailable [carillon.Error] whose outcome
// is known: nothing was done, the owner may be asked.
var ErrNotOwner = errors.New("this node does not own the partition")

// Partitions is what partitions ask of each other, wherever they are. An [Engine] answers for those that this node owns and
// refuses the others with [ErrNotOwner]; a router finds the owner, and asks again while nothing has been done, until ctx ends.
// Errors are [carillon.Error]; one without Unknown says that what was asked for has certainly not been done. What reaches a
// partition after ctx has ended is not done. Each can be repeated without harm.
type Partitions interface {
	// Register notes that jobs wait for jobs of the partition; it says which of those exist.
	Register(ctx context.Context, p int, edges []partition.Edge) (exist []bool, err error)
	// Release tells a waiting job of the partition of a success.
	Release(ctx context.Context, p int, l partition.Letter) (partition.Answer, error)
	// Waits reports whether a job of the partition still waits.
	Waits(ctx context.Context, p int, e partition.Edge) (bool, error)
	// Keeps reports whether a put of the job would keep the times of the one that is there.
	Keeps(ctx context.Context, p int, job *carillon.Job) (bool, error)
	// ApplyShare stores the partition's share of a decided batch. puts is nil if an earlier call has.
	ApplyShare(ctx context.Context, p int, s *partition.Share) (puts []carillon.Put, err error)
	// DeleteIn removes the partition's jobs by prefix.
	DeleteIn(ctx context.Context, p int, namespace, prefix string) (int, error)
	// RedriveIn tries the partition's dead runs again: of a job, or of the namespace if job is empty.
	RedriveIn(ctx context.Context, p int, namespace, job string) (int, error)
	// Hear takes what consumers have said of the partition's attempts to a node that no longer owns it.
	Hear(ctx context.Context, p int, s Said) (Heard, error)
	// AskTokens tells the partition what another has and wants of limits whose home it is. It returns how each stands for the
	// one that asks, which is durable; what is given later comes by GiveTokens.
	AskTokens(ctx context.Context, p int, from partition.Asker, asks []partition.TokenAsk) ([]partition.TokenGrant, error)
	// GiveTokens tells the partition what the homes of limits have handed out to it. It is done when the partition has
	// taken note of it; nothing is durable by that.
	GiveTokens(ctx context.Context, p int, grants []partition.TokenGrant) error
}

// Said is what consumers have said of attempts of one partition.
type Said struct {
	Reports     []partition.Report // From is nil
	Beats       []carillon.Beat
	Lost        []string // tokens of attempts whose worker said goodbye
	Undelivered []string // tokens of attempts that never left, or whose sidecar has gone
}

// Heard is what became of it, by token. What is in neither list need not be told.
type Heard struct {
	Accepted []string // durable
	Stale    []string // not in force: whoever runs it must stop
}
