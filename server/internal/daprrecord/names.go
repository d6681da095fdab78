package daprrecord

import (
	"net/url"
	"strings"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// Address is whose a job is: what its metadata name.
type Address struct {
	Namespace string
	Target    *carillon.DaprTarget
	Reminder  bool // of an actor; its type or id may be missing
}

// AddressOf returns what the metadata of a job name.
func AddressOf(m *pb.JobMetadata) (Address, error) {
	t := &carillon.DaprTarget{AppID: m.GetAppId(), ConcurrencyKey: m.GetConcurrencyKey()}
	switch of := m.GetTarget().GetType().(type) {
	case *pb.JobTargetMetadata_Job:
	case *pb.JobTargetMetadata_Actor:
		t.ActorType, t.ActorID = of.Actor.GetType(), of.Actor.GetId()
	default:
		return Address{}, refuse("metadata.target", "it is missing: it says whether the job is an app's or an actor's")
	}
	return Address{m.GetNamespace(), t, m.GetTarget().GetActor() != nil}, nil
}

// noName stands for the empty name, as no level of a name may be empty: Dapr's names have no control
// characters.
const noName = "%00"

// Key returns where the job of that name is kept.
func (a Address) Key(name string) carillon.Key {
	level := noName
	if name != "" {
		level = carillon.EscapeLevel(name)
	}
	return carillon.Key{Namespace: a.Namespace, Name: a.Target.Prefix() + level}
}

// Prefix returns what the names begin with of all jobs at the address; without an actor's id, of all actors
// of the type. Other ids (other types if there is none, other apps) that begin alike count too if alike is
// set.
func (a Address) Prefix(alike bool) string {
	prefix := carillon.DaprPrefix + "app/" + carillon.EscapeLevel(a.Target.AppID)
	if a.Reminder {
		prefix = carillon.DaprPrefix + "actor/" + carillon.EscapeLevel(a.Target.ActorType)
	}
	if a.Target.ActorID != "" {
		prefix += "/" + carillon.EscapeLevel(a.Target.ActorID)
	}
	if !alike {
		prefix += "/"
	}
	return prefix
}

// Nowhere reports whether the address is that of a reminder without an actor, of which Carillon keeps none.
func (a Address) Nowhere() bool {
	return a.Reminder && (a.Target.ActorType == "" || a.Target.ActorID == "")
}

// InDapr returns the name of a job as Dapr's scheduler writes it in its keys.
func (a Address) InDapr(name string) string {
	if a.Reminder {
		return strings.Join([]string{"actorreminder", a.Namespace, a.Target.ActorType, a.Target.ActorID, name},
			"||")
	}
	return strings.Join([]string{"app", a.Namespace, a.Target.AppID, name}, "||")
}

// NameOf returns the name of a job as the sidecar gave it: the last level of the name it is kept under.
func NameOf(kept string) string {
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

// MetadataOf returns the target as the metadata of a job.
func MetadataOf(namespace string, t *carillon.DaprTarget) *pb.JobMetadata {
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
