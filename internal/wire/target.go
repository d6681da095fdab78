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
	m := &pb.Target{}
	for _, kind := range [...]func(*pb.Target, *carillon.Target) bool{
		workerToProto, httpToProto, kafkaToProto, amqpToProto, natsToProto, redisToProto, execToProto, daprToProto,
	} {
		several := m.Kind != nil
		if kind(m, t) && several {
			return &pb.Target{}
		}
	}
	return m
}

func workerToProto(m *pb.Target, t *carillon.Target) bool {
	if t.Worker == nil {
		return false
	}
	m.Kind = &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: t.Worker.Queue}}
	return true
}

func httpToProto(m *pb.Target, t *carillon.Target) bool {
	if t.HTTP == nil {
		return false
	}
	m.Kind = &pb.Target_Http{Http: &pb.HttpTarget{Url: t.HTTP.URL, Method: t.HTTP.Method, Headers: t.HTTP.Headers}}
	return true
}

func kafkaToProto(m *pb.Target, t *carillon.Target) bool {
	if t.Kafka == nil {
		return false
	}
	m.Kind = &pb.Target_Kafka{Kafka: &pb.KafkaTarget{Cluster: t.Kafka.Cluster, Topic: t.Kafka.Topic, Key: t.Kafka.Key}}
	return true
}

func amqpToProto(m *pb.Target, t *carillon.Target) bool {
	if t.AMQP == nil {
		return false
	}
	m.Kind = &pb.Target_Amqp{Amqp: &pb.AmqpTarget{
		Broker: t.AMQP.Broker, Exchange: t.AMQP.Exchange, RoutingKey: t.AMQP.RoutingKey}}
	return true
}

func natsToProto(m *pb.Target, t *carillon.Target) bool {
	if t.NATS == nil {
		return false
	}
	m.Kind = &pb.Target_Nats{Nats: &pb.NatsTarget{Server: t.NATS.Server, Subject: t.NATS.Subject}}
	return true
}

func redisToProto(m *pb.Target, t *carillon.Target) bool {
	if t.Redis == nil {
		return false
	}
	m.Kind = &pb.Target_Redis{Redis: &pb.RedisTarget{Server: t.Redis.Server, Stream: t.Redis.Stream}}
	return true
}

func execToProto(m *pb.Target, t *carillon.Target) bool {
	if t.Exec == nil {
		return false
	}
	m.Kind = &pb.Target_Exec{Exec: &pb.ExecTarget{Artifact: t.Exec.Artifact, Sha256: t.Exec.SHA256,
		Entrypoint: t.Exec.Entrypoint, Args: t.Exec.Args, Env: t.Exec.Env}}
	return true
}

func daprToProto(m *pb.Target, t *carillon.Target) bool {
	if t.Dapr == nil {
		return false
	}
	m.Kind = &pb.Target_Dapr{Dapr: &pb.DaprTarget{AppId: t.Dapr.AppID, ActorType: t.Dapr.ActorType,
		ActorId: t.Dapr.ActorID, ConcurrencyKey: t.Dapr.ConcurrencyKey}}
	return true
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
		return carillon.Target{Redis: &carillon.RedisTarget{Server: k.Redis.GetServer(), Stream: k.Redis.GetStream()}}
	case *pb.Target_Exec:
		return carillon.Target{Exec: &carillon.ExecTarget{Artifact: k.Exec.GetArtifact(), SHA256: k.Exec.GetSha256(),
			Entrypoint: k.Exec.GetEntrypoint(), Args: k.Exec.GetArgs(), Env: k.Exec.GetEnv()}}
	case *pb.Target_Dapr:
		return carillon.Target{Dapr: &carillon.DaprTarget{AppID: k.Dapr.GetAppId(), ActorType: k.Dapr.GetActorType(),
			ActorID: k.Dapr.GetActorId(), ConcurrencyKey: k.Dapr.GetConcurrencyKey()}}
	}
	return carillon.Target{}
}
