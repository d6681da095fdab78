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
		m.Kind, kinds = &pb.Target_Kafka{Kafka: kafkaToProto(k)}, kinds+1
	}
	if a := t.AMQP; a != nil {
		m.Kind, kinds = &pb.Target_Amqp{Amqp: amqpToProto(a)}, kinds+1
	}
	if n := t.NATS; n != nil {
		m.Kind, kinds = &pb.Target_Nats{Nats: natsToProto(n)}, kinds+1
	}
	if r := t.Redis; r != nil {
		m.Kind, kinds = &pb.Target_Redis{Redis: redisToProto(r)}, kinds+1
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
		return carillon.Target{Kafka: kafkaFromProto(k.Kafka)}
	case *pb.Target_Amqp:
		return carillon.Target{AMQP: amqpFromProto(k.Amqp)}
	case *pb.Target_Nats:
		return carillon.Target{NATS: natsFromProto(k.Nats)}
	case *pb.Target_Redis:
		return carillon.Target{Redis: redisFromProto(k.Redis)}
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

// ifGiven converts what is there; nil stays nil.
func ifGiven[A, B any](a *A, convert func(*A) *B) *B {
	if a == nil {
		return nil
	}
	return convert(a)
}

func kafkaToProto(t *carillon.KafkaTarget) *pb.KafkaTarget {
	return &pb.KafkaTarget{Cluster: t.Cluster, Topic: t.Topic, Key: t.Key,
		AwaitCompletion: t.AwaitCompletion}
}

func kafkaFromProto(m *pb.KafkaTarget) *carillon.KafkaTarget {
	return &carillon.KafkaTarget{Cluster: m.GetCluster(), Topic: m.GetTopic(), Key: m.GetKey(),
		AwaitCompletion: m.GetAwaitCompletion()}
}

func amqpToProto(t *carillon.AMQPTarget) *pb.AmqpTarget {
	return &pb.AmqpTarget{Broker: t.Broker, Exchange: t.Exchange, RoutingKey: t.RoutingKey,
		AwaitCompletion: t.AwaitCompletion}
}

func amqpFromProto(m *pb.AmqpTarget) *carillon.AMQPTarget {
	return &carillon.AMQPTarget{Broker: m.GetBroker(), Exchange: m.GetExchange(), RoutingKey: m.GetRoutingKey(),
		AwaitCompletion: m.GetAwaitCompletion()}
}

func natsToProto(t *carillon.NATSTarget) *pb.NatsTarget {
	return &pb.NatsTarget{Server: t.Server, Subject: t.Subject, AwaitCompletion: t.AwaitCompletion}
}

func natsFromProto(m *pb.NatsTarget) *carillon.NATSTarget {
	return &carillon.NATSTarget{Server: m.GetServer(), Subject: m.GetSubject(),
		AwaitCompletion: m.GetAwaitCompletion()}
}

func redisToProto(t *carillon.RedisTarget) *pb.RedisTarget {
	return &pb.RedisTarget{Server: t.Server, Stream: t.Stream, AwaitCompletion: t.AwaitCompletion}
}

func redisFromProto(m *pb.RedisTarget) *carillon.RedisTarget {
	return &carillon.RedisTarget{Server: m.GetServer(), Stream: m.GetStream(),
		AwaitCompletion: m.GetAwaitCompletion()}
}
