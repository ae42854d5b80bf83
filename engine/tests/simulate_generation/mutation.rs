//! Deliberately wrong rules. A reference that follows one of them must be seen to disagree with the
//! scheduler.

use crate::support::mutations;

mutations! {
    // Who is admitted.
    /// Requests wait in order of submission, whatever their priority.
    PriorityIgnored,
    /// Priority 0 is the highest.
    ZeroIsHighest,
    /// A request that fits passes one that does not.
    PassTheFirst,
    /// Requests that wait go before preempted ones.
    NewBeforePreempted,
    /// Running requests count for the limit of the queue.
    QueueCountsRunning,
    /// One more than the limit runs.
    OneMoreRuns,
    /// The last token gets a place in the KV.
    LastTokenReserved,
    /// Growing requests reserve no page beyond their tokens.
    NoPageToGrow,
    /// Growing requests may reserve more than they can use.
    PageBeyondTheEnd,
    /// The largest page numbers are given first.
    HighestFirst,

    // Who gives up its pages, and how.
    /// The oldest of the lowest priority is preempted.
    VictimIsTheOldest,
    /// The newest is preempted, whatever its priority.
    VictimWhateverPriority,
    /// The oldest of all may be preempted.
    OldestMayGo,
    /// Swapping is cheaper, always.
    AlwaysSwap,
    /// Computing again is cheaper, always.
    NeverSwap,
    /// What swapping costs is counted one way.
    SwapOneWay,
    /// All pages are moved, also those without tokens.
    MoveEmptyPages,
    /// What no logits depended on may be swapped.
    SwapUnseen,
    /// Only growing by a whole page counts as need.
    GrowLater,

    // In which calls they run.
    /// Prompts run before decodes.
    PrefillFirst,
    /// Prompts take tokens, not token columns, from the budget.
    BudgetOfTokens,
    /// Only one prefill call runs between decodes.
    OnePrefillCall,
    /// The newest prompt goes on first.
    NewestPromptFirst,
    /// Prompts share a call whatever it costs.
    ShareWhateverItCosts,
    /// Prompts never share a call.
    NeverShare,
    /// Decodes share calls in order of submission, not of length.
    DecodesInOrder,
    /// A prompt's chunk is that of the longest entry, or none.
    LongestChunkOrNone,

    // Drafts.
    /// The oldest place counts.
    OldestPlace,
    /// The shortest n-gram is enough.
    ShortestNgram,
    /// Drafts end where the history does.
    NoDraftsFromDrafts,
    /// The token after the last one that was asked for is a draft, too.
    DraftsPastTheEnd,
    /// One row with drafts is enough to verify all.
    DraftsOfOne,
    /// Drafts take no new pages.
    DraftsTakeNoPages,

    // Draft heads.
    /// Requests hold no pages beyond their tokens.
    NoPagesForDrafts,
    /// Prefill entries reach no further than their tokens.
    PrefillWithoutProposals,
    /// Decode entries reach no further than the drafts that they verify.
    VerifyWithoutProposals,
    /// A request's state stays where it was before a verify step.
    StateStays,
    /// A request that was in host memory has no drafts.
    DraftsForgottenOnTheWay,

    // Failures.
    /// What a row that is not finite held goes to others as it is.
    NotFiniteStays,
    /// What a cancelled prompt held goes to others as it is.
    CancelledStays,
    /// Lost pools end every request that runs.
    LostPoolsEndAll,
    /// Lost pools drop what is in host memory.
    LostPoolsForgetHost,
    /// A failed call ends every request that runs.
    FailureEndsAll,
    /// A failed scrub is taken for a done one.
    ScrubFailureIgnored,
    /// Requests whose way in failed keep their place in host memory.
    SwapInAgain,
    /// Pools that could not be replaced leave waiting requests.
    MissingPoolsKeepWaiting,

    // Time.
    /// A deadline is the last moment at which a request may live.
    DeadlineIsLate,
    /// Only requests that wait time out.
    DeadlineOfWaiting,
    /// A cancellation is seen at the start of a round.
    CancelledNextRound,
    /// Requests that wait end when the server stops.
    StopEndsWaiting,
}
