package grpcapi

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// PutCalendar implements the rpc.
func (s *Service) PutCalendar(ctx context.Context, m *pb.PutCalendarRequest) (*pb.Calendar, error) {
	c := wire.CalendarFromProto(m)
	c.Namespace = namespace(c.Namespace)
	c, err := s.scheduler.PutCalendar(ctx, c)
	return wire.CalendarToProto(&c), err
}

// GetCalendar implements the rpc.
func (s *Service) GetCalendar(ctx context.Context, m *pb.GetCalendarRequest) (*pb.Calendar, error) {
	c, err := s.scheduler.GetCalendar(ctx, namespace(m.GetNamespace()), m.GetName())
	return wire.CalendarToProto(&c), err
}

// ListCalendars implements the rpc.
func (s *Service) ListCalendars(ctx context.Context,
	m *pb.ListCalendarsRequest) (*pb.ListCalendarsResponse, error) {
	q := wire.CalendarQueryFromProto(m)
	q.Namespace = namespace(q.Namespace)
	page, err := s.scheduler.ListCalendars(ctx, q)
	return wire.CalendarPageToProto(page), err
}

// DeleteCalendar implements the rpc.
func (s *Service) DeleteCalendar(ctx context.Context,
	m *pb.DeleteCalendarRequest) (*pb.DeleteCalendarResponse, error) {
	err := s.scheduler.DeleteCalendar(ctx, namespace(m.GetNamespace()), m.GetName(),
		carillon.IfGeneration(m.GetIfGeneration()))
	return &pb.DeleteCalendarResponse{Deleted: err == nil}, err
}

// ListTimes implements the rpc.
func (s *Service) ListTimes(ctx context.Context, m *pb.ListTimesRequest) (*pb.ListTimesResponse, error) {
	q, err := wire.TimesQueryFromProto(m)
	if err != nil {
		return nil, err
	}
	t, err := onJob(ctx, m, func(ctx context.Context, key carillon.Key) (carillon.Timetable, error) {
		q.Key = key
		return s.scheduler.ListTimes(ctx, q)
	})
	return wire.TimetableToProto(&t), err
}

// PreviewSchedule implements the rpc.
func (s *Service) PreviewSchedule(ctx context.Context,
	m *pb.PreviewScheduleRequest) (*pb.PreviewScheduleResponse, error) {
	q, err := wire.PreviewFromProto(m)
	if err != nil {
		return nil, err
	}
	now := s.options.Now()
	calendars, err := s.calendarsOf(ctx, &q)
	if err != nil {
		return nil, err
	}
	times, err := carillon.Preview(q, now, calendars...)
	if err != nil {
		return nil, err
	}
	return wire.TimesToProto(times, hints(q.Schedule)), nil
}

// hints are about a valid schedule; a job that runs once has none.
func hints(text string) []string {
	s, err := (&carillon.Job{Schedule: text}).ParseSchedule()
	if err != nil || s == nil {
		return nil
	}
	return s.Hints()
}

// calendarsOf returns the calendars that a query names, as far as they exist. Too many are left to the
// preview to refuse.
func (s *Service) calendarsOf(ctx context.Context,
	q *carillon.PreviewQuery) (out []carillon.Calendar, err error) {
	rules := carillon.CalendarRules{Except: q.Except, Only: q.Only}
	if len(q.Except) > carillon.MaxCalendarsOfJob || len(q.Only) > carillon.MaxCalendarsOfJob {
		return nil, nil
	}
	for _, name := range rules.Names() {
		c, err := s.scheduler.GetCalendar(ctx, namespace(q.Namespace), name)
		switch {
		case err == nil:
			out = append(out, c)
		case !errors.Is(err, carillon.NotFound) && !errors.Is(err, carillon.InvalidArgument):
			return nil, err
		}
	}
	return out, nil
}
