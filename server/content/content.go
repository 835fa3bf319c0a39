// Package content has the records of a community: product updates, articles and the replies of articles, as the content
// interface shows them (specification.md 6), and what a store of them does.
//
// Each field is in JSON always, with its type: what has no value is "", 0, false, [] or an object of such, never null.
package content

// Author is who wrote something, as they were when it was stored.
type Author struct {
	ID          string     `json:"id"`
	Username    string     `json:"username"`
	CustomTitle string     `json:"customTitle"`
	Signature   string     `json:"signature"`
	Avatar      string     `json:"avatar"` // URL
	Reputation  Reputation `json:"reputation"`
}

// Reputation is the standing of an author in the community.
type Reputation struct {
	Rank              string `json:"rank"`
	RankIcon          string `json:"rankIcon"`          // URL
	RankIconThumbnail string `json:"rankIconThumbnail"` // URL
	LikesReceived     int64  `json:"likesReceived"`
	RepliesMade       int64  `json:"repliesMade"`
}

// Counts are how many replies something has, by their state.
type Counts struct {
	ReplyCount                 int64 `json:"replyCount"`
	SpamReplyCount             int64 `json:"spamReplyCount"`
	PendingReplyCount          int64 `json:"pendingReplyCount"`
	TrashedReplyCount          int64 `json:"trashedReplyCount"`
	TotalReplyCount            int64 `json:"totalReplyCount"`
	InclusiveReplyCount        int64 `json:"inclusiveReplyCount"`
	InclusiveVisibleReplyCount int64 `json:"inclusiveVisibleReplyCount"`
}

// LastEdit is the last change of a text. The types are those of specification.md 6.11.
type LastEdit struct {
	ID       string       `json:"id"`
	Editor   List[string] `json:"editor"`
	EditedAt bool         `json:"editedAt"`
}

// ScheduledBy is who set the time of publication.
type ScheduledBy struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Avatar   string `json:"avatar"` // URL
}

// ProductUpdate is news about a product.
type ProductUpdate struct {
	ID                   string    `json:"id"`
	PublicID             string    `json:"publicId"`
	Title                string    `json:"title"`
	FeaturedImage        string    `json:"featuredImage"`
	FeaturedImageAltText string    `json:"featuredImageAltText"`
	PublicLabel          string    `json:"publicLabel"`
	Body                 string    `json:"body"` // HTML
	Author               Author    `json:"author"`
	CreatedAt            Timestamp `json:"createdAt"`
	Counts
	Tags            List[string]      `json:"tags"`
	ModeratorTags   List[string]      `json:"moderatorTags"`
	LikedBy         List[string]      `json:"likedBy"`
	ProductAreas    List[ProductArea] `json:"productAreas"`
	Sticky          bool              `json:"sticky"`
	Closed          bool              `json:"closed"`
	Trashed         bool              `json:"trashed"`
	ContainsPoll    bool              `json:"containsPoll"`
	LastEdit        LastEdit          `json:"lastEdit"`
	Status          string            `json:"status"`
	ScheduledBy     ScheduledBy       `json:"scheduledBy"`
	SEOCommunityURL string            `json:"seoCommunityUrl"`
}

// ProductArea is a part of a product.
type ProductArea struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Article is a text of the community that has replies.
type Article struct {
	ID                   string    `json:"id"`
	PublicID             string    `json:"publicId"`
	Title                string    `json:"title"`
	FeaturedImage        string    `json:"featuredImage"`
	FeaturedImageAltText string    `json:"featuredImageAltText"`
	PublicLabel          string    `json:"publicLabel"`
	Body                 string    `json:"body"` // HTML
	CategoryID           string    `json:"categoryId"`
	Author               Author    `json:"author"`
	CreatedAt            Timestamp `json:"createdAt"`
	PublishedAt          Timestamp `json:"publishedAt"`
	LastActivityAt       Timestamp `json:"lastActivityAt"` // as it was stored: later replies do not change it
	LastModifiedAt       Timestamp `json:"lastModifiedAt"`
	ScheduledAt          Timestamp `json:"scheduledAt"`
	Counts
	Tags            List[string] `json:"tags"`
	ModeratorTags   List[string] `json:"moderatorTags"`
	LikedBy         List[string] `json:"likedBy"`
	Poll            List[string] `json:"poll"`
	Sticky          bool         `json:"sticky"`
	Closed          bool         `json:"closed"`
	Trashed         bool         `json:"trashed"`
	ContainsPoll    bool         `json:"containsPoll"`
	IsPreviewPublic bool         `json:"isPreviewPublic"`
	LastEdit        LastEdit     `json:"lastEdit"`
	Status          string       `json:"status"`
	ScheduledBy     ScheduledBy  `json:"scheduledBy"`
	SEOCommunityURL string       `json:"seoCommunityUrl"`
	Links           Links        `json:"_links"`
}

// Links are links of an article.
type Links struct {
	Self Object `json:"self"`
}

// Reply is an answer to an article.
type Reply struct {
	ID                         string       `json:"id"`
	PublicReplyID              string       `json:"publicReplyId"`
	Content                    string       `json:"content"` // HTML
	Author                     Author       `json:"author"`
	RepliedAt                  Timestamp    `json:"repliedAt"`
	InclusiveReplyCount        int64        `json:"inclusiveReplyCount"`
	InclusiveVisibleReplyCount int64        `json:"inclusiveVisibleReplyCount"`
	Trashed                    bool         `json:"trashed"`
	Spam                       bool         `json:"spam"`
	Reported                   bool         `json:"reported"`
	PendingApproval            bool         `json:"pendingApproval"`
	Highlighted                bool         `json:"highlighted"`
	ReportedContent            List[Report] `json:"reportedContent"`
	LikedBy                    List[string] `json:"likedBy"`
	Permalink                  string       `json:"permalink"` // URL
}

// Visible reports whether everybody may see the reply, as long as its article is not trashed.
func (r *Reply) Visible() bool { return !r.Trashed && !r.Spam && !r.PendingApproval }

// Report says that somebody found a reply wrong.
type Report struct {
	ID         string    `json:"id"`
	Reason     string    `json:"reason"`
	ReportedAt Timestamp `json:"reportedAt"`
	ReportedBy Author    `json:"reportedBy"`
}
