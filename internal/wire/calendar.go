package wire

import (
	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// CalendarToProto is the calendar as a message.
func CalendarToProto(c *carillon.Calendar) *pb.Calendar {
	return &pb.Calendar{Namespace: c.Namespace, Name: c.Name, TimeZone: c.TimeZone, Dates: c.Dates,
		Note: text(c.Note), Generation: c.Generation}
}

// PutCalendarToProto is the calendar as a request.
func PutCalendarToProto(c *carillon.Calendar) *pb.PutCalendarRequest {
	return &pb.PutCalendarRequest{Namespace: c.Namespace, Name: c.Name, TimeZone: c.TimeZone, Dates: c.Dates,
		Note: text(c.Note), Generation: c.Generation}
}

// calendarMessage is a message with the fields of a calendar.
type calendarMessage interface {
	GetNamespace() string
	GetName() string
	GetTimeZone() string
	GetDates() []string
	GetNote() string
	GetGeneration() uint64
}

// CalendarFromProto is the message, or the request, as a calendar.
func CalendarFromProto(m calendarMessage) carillon.Calendar {
	return carillon.Calendar{Namespace: m.GetNamespace(), Name: m.GetName(), TimeZone: m.GetTimeZone(),
		Dates: m.GetDates(), Note: m.GetNote(), Generation: m.GetGeneration()}
}

// CalendarQueryToProto is the query as a request.
func CalendarQueryToProto(q carillon.CalendarQuery) *pb.ListCalendarsRequest {
	return &pb.ListCalendarsRequest{Namespace: q.Namespace, PageSize: clampInt32(q.PageSize),
		PageToken: q.PageToken}
}

// CalendarQueryFromProto is the request as a query.
func CalendarQueryFromProto(m *pb.ListCalendarsRequest) carillon.CalendarQuery {
	return carillon.CalendarQuery{Namespace: m.GetNamespace(), PageSize: int(m.GetPageSize()),
		PageToken: m.GetPageToken()}
}

// CalendarPageToProto is the page as a message.
func CalendarPageToProto(p carillon.CalendarPage) *pb.ListCalendarsResponse {
	return &pb.ListCalendarsResponse{Calendars: toEach(p.Calendars, CalendarToProto),
		NextPageToken: p.NextPageToken}
}

// CalendarPageFromProto is the message as a page.
func CalendarPageFromProto(m *pb.ListCalendarsResponse) carillon.CalendarPage {
	p := carillon.CalendarPage{NextPageToken: m.GetNextPageToken()}
	for _, c := range m.GetCalendars() {
		p.Calendars = append(p.Calendars, CalendarFromProto(c))
	}
	return p
}
