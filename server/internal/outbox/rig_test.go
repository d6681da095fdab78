package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// installed is a new database with an outbox.
func installed(t *testing.T, s *realserver.Postgres) (url string) {
	t.Helper()
	url = s.Database(t)
	if err := outbox.Install(t.Context(), url, outbox.Roles{}); err != nil {
		t.Fatal(err)
	}
	return url
}

// feed reads an outbox on a node, which soon forgets what is done.
func feed(url string) server.Feed { return feedFor(url, time.Second) }

// feedFor is feed for a node that forgets later.
func feedFor(url string, kept time.Duration) server.Feed {
	return func(to server.Intake) func(context.Context) {
		ctx, cancel := context.WithCancel(context.Background())
		r := outbox.New(outbox.Options{Name: "test", URL: url, Do: to.Do, Forget: to.Forget, Log: to.Log(),
			Done: func(int) {}, Rejected: func(int) {}, Kept: kept})
		var running sync.WaitGroup
		until, giveUp := context.WithCancel(context.Background())
		running.Go(func() { r.Run(ctx, until) })
		return func(ctx context.Context) {
			cancel()
			defer context.AfterFunc(ctx, giveUp)()
			running.Wait()
			giveUp()
		}
	}
}

// node starts a node that reads an outbox.
func node(t *testing.T, storeURL, url string) *server.Node {
	t.Helper()
	n := start(t, storeURL, feed(url))
	t.Cleanup(func() { stop(t, n) })
	return n
}

func start(t *testing.T, storeURL string, of server.Feed) *server.Node {
	t.Helper()
	n, err := server.Start(t.Context(), server.Config{Store: storeURL, Partitions: 8, DrainGrace: -1,
		Log:        slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Extensions: server.Extensions{Feeds: []server.Feed{of}}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func stop(t *testing.T, n *server.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

// session is a connection of an application.
func session(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // a test may have ended the server
	return c
}

// job returns a job by name, nil if there is none.
func job(t testing.TB, n *server.Node, name string) *carillon.Job {
	t.Helper()
	j, err := n.Scheduler().GetJob(t.Context(), carillon.Key{Name: name})
	if errors.Is(err, carillon.NotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &j
}

// TestOnOneServer are tests that need no server for themselves.
func TestOnOneServer(t *testing.T) {
	s := realserver.StartPostgres(t, realserver.Volatile()...)
	for name, test := range map[string]func(*testing.T, *realserver.Postgres){
		"a put is stored once its transaction commits": aPutIsStoredOnceItsTransactionCommits,
		"wrong input is refused by the function":       wrongInputIsRefusedByTheFunction,
		"what is right is taken":                       whatIsRightIsTaken,
		"it refuses what the description refuses":      itRefusesWhatTheDescriptionRefuses,
		"what only the node knows is rejected":         whatOnlyTheNodeKnowsIsRejected,
		"commands of a name wait for each other":       commandsOfANameWaitForEachOther,
		"many commits notify nobody":                   manyCommitsNotifyNobody,
		"put from Go":                                  putFromGo,
		"what cannot be written holds up nobody":       whatCannotBeWrittenHoldsUpNobody,
		"a refusal is certain before what follows":     aRefusalIsCertainBeforeWhatFollows,
		"what may pass is tried again":                 whatMayPassIsTriedAgain,
		"patience ends":                                patienceEnds,
		"two readers agree on refusals":                twoReadersAgreeOnRefusals,
		"rows behind a blocked name are not read":      rowsBehindABlockedNameAreNotRead,
		"a cancelled put leaves no lock":               aCancelledPutLeavesNoLock,
		"who has the turn wrongly":                     whoHasTheTurnWrongly,
		"blocked names leave room for others":          blockedNamesLeaveRoomForOthers,
		"rejects are retried once and in order":        rejectsAreRetriedOnceAndInOrder,
		"every name is promoted":                       everyNameIsPromoted,
		"what is parked too late is due":               whatIsParkedTooLateIsDue,
		"a watch lingers while commits may not notify": aWatchLingersWhileCommitsMayNotNotify,
		"a reader ends with what is under way":         aReaderEndsWithWhatIsUnderWay,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}
