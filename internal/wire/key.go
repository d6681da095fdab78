package wire

import (
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// KeyToProto is the key as a message.
func KeyToProto(k *carillon.AccessKey) *pb.AccessKey {
	return &pb.AccessKey{Id: k.ID, Grants: toEach(k.Grants, grantToProto), Note: text(k.Note),
		Creator: text(k.Creator), CreateTime: timestamp(k.Created), ExpireTime: timestamp(k.Expires),
		LastUseTime: timestamp(k.LastUsed), RotateTime: timestamp(k.Rotated), Rotator: text(k.Rotator),
		OverlapEndTime: timestamp(k.OverlapEnds)}
}

// KeyFromProto is the message as a key.
func KeyFromProto(m *pb.AccessKey) carillon.AccessKey {
	return carillon.AccessKey{ID: m.GetId(), Grants: grantsFromProto(m.GetGrants()), Note: m.GetNote(),
		Creator: m.GetCreator(), Created: instant(m.GetCreateTime()), Expires: instant(m.GetExpireTime()),
		LastUsed: instant(m.GetLastUseTime()), Rotated: instant(m.GetRotateTime()), Rotator: m.GetRotator(),
		OverlapEnds: instant(m.GetOverlapEndTime())}
}

func grantToProto(g *carillon.AccessGrant) *pb.AccessGrant {
	return &pb.AccessGrant{Role: string(g.Role), Namespaces: g.Namespaces, Queues: g.Queues}
}

func grantsFromProto(ms []*pb.AccessGrant) []carillon.AccessGrant {
	var all []carillon.AccessGrant
	for _, m := range ms {
		all = append(all, carillon.AccessGrant{Role: carillon.Role(m.GetRole()), Namespaces: m.GetNamespaces(),
			Queues: m.GetQueues()})
	}
	return all
}

// NewKeyToProto is what is asked of a new key as a request.
func NewKeyToProto(k *carillon.NewKey) *pb.CreateKeyRequest {
	return &pb.CreateKeyRequest{Grants: toEach(k.Grants, grantToProto), Note: text(k.Note),
		ExpireTime: timestamp(k.Expires)}
}

// NewKeyFromProto is the request as what is asked of a new key.
func NewKeyFromProto(m *pb.CreateKeyRequest) (carillon.NewKey, error) {
	var f first
	k := carillon.NewKey{Grants: grantsFromProto(m.GetGrants()), Note: m.GetNote(),
		Expires: f.time(m.GetExpireTime(), "expire_time")}
	return k, f.err
}

// OverlapFromProto is for how long the request would have the secret before be valid, too.
func OverlapFromProto(m *pb.RotateKeyRequest) (time.Duration, error) {
	if m.GetOverlap() == "" {
		return carillon.DefaultKeyOverlap, nil
	}
	var f first
	overlap := f.duration(m.GetOverlap(), "overlap")
	return overlap, f.err
}

// RotatedKeyToProto is a rotated key as a message.
func RotatedKeyToProto(k *carillon.CreatedKey, unheard []string) *pb.RotateKeyResponse {
	return &pb.RotateKeyResponse{Key: KeyToProto(&k.Key), Secret: k.Secret, Unheard: unheard}
}

// KeyPageToProto is the page as a message.
func KeyPageToProto(p carillon.KeyPage) *pb.ListKeysResponse {
	return &pb.ListKeysResponse{Keys: toEach(p.Keys, KeyToProto), NextPageToken: p.NextPageToken}
}

// SessionToProto is who a caller is as a message; kind and id are those of its credential, which ends at a
// time, zero for never.
func SessionToProto(authentication, kind, id string, grants []carillon.AccessGrant,
	ends time.Time) *pb.Session {
	return &pb.Session{Authentication: authentication, Kind: kind, Id: text(id),
		Grants: toEach(grants, grantToProto), ExpireTime: timestamp(ends)}
}
