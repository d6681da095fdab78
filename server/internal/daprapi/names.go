package daprapi

import (
	"net/url"
	"strings"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
)

// targetOf is what the metadata of a job names.
func targetOf(m *pb.JobMetadata) (*carillon.DaprTarget, error) {
	t := &carillon.DaprTarget{AppID: m.GetAppId(), ConcurrencyKey: m.GetConcurrencyKey()}
	switch of := m.GetTarget().GetType().(type) {
	case *pb.JobTargetMetadata_Job:
	case *pb.JobTargetMetadata_Actor:
		t.ActorType, t.ActorID = of.Actor.GetType(), of.Actor.GetId()
	default:
		return nil, refuse("metadata.target", "it is missing: it says whether the job is an app's or an actor's")
	}
	return t, nil
}

// kindOf is what metrics call a job of an app or a reminder.
func kindOf(reminder bool) string {
	if reminder {
		return daprmetrics.KindActor
	}
	return daprmetrics.KindJob
}

// noName stands for the empty name, as no level of a name may be empty: Dapr's names have no control
// characters.
const noName = "%00"

// key is where the job of that name is kept.
func (a address) key(name string) carillon.Key {
	level := noName
	if name != "" {
		level = carillon.EscapeLevel(name)
	}
	return carillon.Key{Namespace: a.namespace, Name: a.target.Prefix() + level}
}

// prefix is what the names begin with of all jobs at the address; without an actor's id, of all actors of the
// type. Other ids (other types if there is none, other apps) that begin alike count too if alike is set.
func (a address) prefix(alike bool) string {
	prefix := carillon.DaprPrefix + "app/" + carillon.EscapeLevel(a.target.AppID)
	if a.reminder {
		prefix = carillon.DaprPrefix + "actor/" + carillon.EscapeLevel(a.target.ActorType)
	}
	if a.target.ActorID != "" {
		prefix += "/" + carillon.EscapeLevel(a.target.ActorID)
	}
	if !alike {
		prefix += "/"
	}
	return prefix
}

// nameOf is the name of a job as the sidecar gave it: the last level of the name it is kept under.
func nameOf(kept string) string {
	level := kept[strings.LastIndexByte(kept, '/')+1:]
	if strings.IndexByte(level, '%') < 0 {
		return level
	}
	if level == noName {
		return ""
	}
	name, err := url.PathUnescape(level)
	if err != nil {
		return level // not one of ours
	}
	return name
}

// metadataOf is the target as the metadata of a job.
func metadataOf(namespace string, t *carillon.DaprTarget) *pb.JobMetadata {
	m := &pb.JobMetadata{AppId: t.AppID, Namespace: namespace, Target: &pb.JobTargetMetadata{}}
	if t.ActorType == "" {
		m.Target.Type = &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}
	} else {
		m.Target.Type = &pb.JobTargetMetadata_Actor{Actor: &pb.TargetActorReminder{Type: t.ActorType,
			Id: t.ActorID}}
	}
	if t.ConcurrencyKey != "" {
		m.ConcurrencyKey = &t.ConcurrencyKey
	}
	return m
}
