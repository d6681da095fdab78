// Command descriptors prints Carillon's descriptions of the protocols of Dapr's Scheduler and of its sentry,
// a google.protobuf.FileDescriptorSet.
package main

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	common "github.com/carillonhq/carillon/api/dapr/proto/common/v1"
	scheduler "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	sentry "github.com/carillonhq/carillon/api/dapr/proto/sentry/v1"
)

func main() {
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range []protoreflect.FileDescriptor{
		common.File_dapr_proto_common_v1_common_proto, scheduler.File_dapr_proto_scheduler_v1_scheduler_proto,
		sentry.File_dapr_proto_sentry_v1_sentry_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	b, err := proto.Marshal(set)
	if err == nil {
		_, err = os.Stdout.Write(b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
