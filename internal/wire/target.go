package wire

import (
	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// targetToProto is the target as a message. One with no kind, or with several, crosses as a target that has
// none, so that the server refuses what would otherwise lose a part on the way.
func targetToProto(t *carillon.Target) *pb.Target {
	if *t == (carillon.Target{}) {
		return nil
	}
	m, kinds := &pb.Target{}, 0
	if w := t.Worker; w != nil {
		m.Kind, kinds = &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: w.Queue}}, kinds+1
	}
	if h := t.HTTP; h != nil {
		m.Kind, kinds = &pb.Target_Http{Http: &pb.HttpTarget{Url: h.URL, Method: h.Method,
			Headers: h.Headers}}, kinds+1
	}
	if k := t.Kafka; k != nil {
		m.Kind, kinds = &pb.Target_Kafka{Kafka: &pb.KafkaTarget{Cluster: k.Cluster, Topic: k.Topic,
			Key: k.Key}}, kinds+1
	}
	if a := t.AMQP; a != nil {
		m.Kind, kinds = &pb.Target_Amqp{Amqp: &pb.AmqpTarget{Broker: a.Broker, Exchange: a.Exchange,
			RoutingKey: a.RoutingKey}}, kinds+1
	}
	if n := t.NATS; n != nil {
		m.Kind, kinds = &pb.Target_Nats{Nats: &pb.NatsTarget{Server: n.Server, Subject: n.Subject}}, kinds+1
	}
	if r := t.Redis; r != nil {
		m.Kind, kinds = &pb.Target_Redis{Redis: &pb.RedisTarget{Server: r.Server, Stream: r.Stream}}, kinds+1
	}
	if e := t.Exec; e != nil {
		m.Kind, kinds = &pb.Target_Exec{Exec: &pb.ExecTarget{Artifact: e.Artifact, Sha256: e.SHA256,
			Entrypoint: e.Entrypoint, Args: e.Args, Env: e.Env}}, kinds+1
	}
	if d := t.Dapr; d != nil {
		m.Kind, kinds = &pb.Target_Dapr{Dapr: &pb.DaprTarget{AppId: d.AppID, ActorType: d.ActorType,
			ActorId: d.ActorID, ConcurrencyKey: d.ConcurrencyKey}}, kinds+1
	}
	if kinds > 1 {
		return &pb.Target{}
	}
	return m
}

// targetFromProto is the message as a target.
func targetFromProto(m *pb.Target) carillon.Target {
	switch k := m.GetKind().(type) {
	case *pb.Target_Worker:
		return carillon.Target{Worker: &carillon.WorkerTarget{Queue: k.Worker.GetQueue()}}
	case *pb.Target_Http:
		return carillon.Target{HTTP: &carillon.HTTPTarget{
			URL: k.Http.GetUrl(), Method: k.Http.GetMethod(), Headers: k.Http.GetHeaders()}}
	case *pb.Target_Kafka:
		return carillon.Target{Kafka: &carillon.KafkaTarget{
			Cluster: k.Kafka.GetCluster(), Topic: k.Kafka.GetTopic(), Key: k.Kafka.GetKey()}}
	case *pb.Target_Amqp:
		return carillon.Target{AMQP: &carillon.AMQPTarget{
			Broker: k.Amqp.GetBroker(), Exchange: k.Amqp.GetExchange(), RoutingKey: k.Amqp.GetRoutingKey()}}
	case *pb.Target_Nats:
		return carillon.Target{NATS: &carillon.NATSTarget{Server: k.Nats.GetServer(), Subject: k.Nats.GetSubject()}}
	case *pb.Target_Redis:
		return carillon.Target{Redis: &carillon.RedisTarget{Server: k.Redis.GetServer(),
			Stream: k.Redis.GetStream()}}
	case *pb.Target_Exec:
		return carillon.Target{Exec: &carillon.ExecTarget{Artifact: k.Exec.GetArtifact(),
			SHA256: k.Exec.GetSha256(), Entrypoint: k.Exec.GetEntrypoint(), Args: k.Exec.GetArgs(),
			Env: k.Exec.GetEnv()}}
	case *pb.Target_Dapr:
		return carillon.Target{Dapr: &carillon.DaprTarget{AppID: k.Dapr.GetAppId(),
			ActorType: k.Dapr.GetActorType(), ActorID: k.Dapr.GetActorId(),
			ConcurrencyKey: k.Dapr.GetConcurrencyKey()}}
	}
	return carillon.Target{}
}
