package transfer

import peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"

// The steps that nodes are asked for, in the order in which they come.

func beginStep() *peerv1.FollowRequest {
	return &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Begin{Begin: &peerv1.FollowBegin{}}}
}

func copyStep(partitions []uint32, keepRuns bool) *peerv1.FollowRequest {
	is := &peerv1.FollowCopy{Partitions: partitions, KeepRuns: keepRuns}
	return &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Copy{Copy: is}}
}

func holdStep(settle bool) *peerv1.FollowRequest {
	return &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Hold{Hold: &peerv1.FollowHold{Settle: settle}}}
}

func checkStep(digest bool) *peerv1.FollowRequest {
	return &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Check{Check: &peerv1.FollowCheck{Digest: digest}}}
}

func moveStep(undo bool) *peerv1.FollowRequest {
	return &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Move{Move: &peerv1.FollowMove{Undo: undo}}}
}

func releaseStep() *peerv1.FollowRequest {
	return &peerv1.FollowRequest{Step: &peerv1.FollowRequest_Release{Release: &peerv1.FollowRelease{}}}
}
