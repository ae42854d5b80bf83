//! Deliberately wrong rules. A reference that follows one of them must be seen to disagree with the
//! engine: that is what shows that the comparison can tell the rule from its neighbours.

use crate::support::mutations;

mutations! {
    // When a batch starts (§8).
    /// The cohort wait counts from the arrival of the latest pending request.
    CohortWaitFromTheLatest,
    /// The cohort wait counts from the arrival though a batch still ran then.
    CohortWaitFromTheArrival,
    /// Sequences that are not held any more are waited for.
    CohortOfTheFreed,
    /// A sequence that only got its prompt in is waited for.
    CohortOfPrompts,
    /// A sequence whose step was refused is waited for.
    CohortOfTheRefused,
    /// Later prompts extend the prompt wait.
    PromptWaitFromTheLatest,
    /// Requests of one token wait for others, too.
    PromptWaitOfSteps,
    /// With two waits the later one counts.
    LaterOfBothWaits,
    /// When the cohort's time is over, prompts are not waited for either.
    TimeOutEndsTheOtherWait,
    /// The end of a batch is its start.
    BatchEndsAtItsStart,
    /// Stopping does not end a wait.
    StoppingWaits,

    // What is in it (§8).
    /// Two requests of one sequence are in one batch.
    NoDeduplication,
    /// Two requests without a sequence are in two batches.
    NamelessAreOne,
    /// A batch has at most as many requests as the model's `max_batch_size`.
    BatchOfMaxSize,

    // What a request takes and who gives way (§10).
    /// The largest page numbers are given first.
    HighestFirst,
    /// A ring grows with its sequence.
    EndlessRing,
    /// A shortage of pages is told before one of ring pages.
    PagesBeforeRing,
    /// Idle sequences are freed though enough is free.
    ReclaimTooEarly,
    /// Every sequence that is idle for too long is freed, not only as many as are needed.
    ReclaimAll,
    /// The most recently active one goes first.
    ReclaimTheLatest,
    /// A sequence with a request in the batch may be freed.
    ReclaimTheBusy,
    /// The limit is twice the idle time of the server.
    LimitWithoutBatches,
    /// The sequence that asks is not counted as live.
    LimitWithoutTheNew,
    /// A refused request does not count as activity.
    RefusedAreIdle,
    /// A START that intake refused leaves the earlier sequence of its id.
    RefusedStartKeeps,
    /// A START that admission refused leaves an empty sequence.
    RefusedStartStays,
    /// A refused END does not free its sequence.
    RefusedEndKeeps,

    // In which calls they run (§11).
    /// Calls are as long as the prefill entries take, whatever the window.
    SplitByChunkOnly,
    /// A call may write over the oldest position that its first token sees.
    SplitOneLater,
    /// A prompt runs all its calls before the next one runs any.
    PromptByPrompt,
    /// Prompts of different contexts share a call.
    ContextsMerged,
    /// The first entry that fits is chosen.
    FirstEntry,
    /// One-token requests run before prompts.
    DecodesFirst,

    // Failures (§11.2, §12, §14).
    /// A request whose later call failed keeps its sequence.
    LostKeeps,
    /// Tokens count when the copy to the host failed.
    CopyFailureAdvances,
    /// On a model with recurrent state, tokens can be sent again after a failed copy.
    StateGoesBack,
    /// After a failed execution nothing else of the batch runs.
    FailureEndsTheBatch,
    /// After the pools were taken the rest of the batch runs.
    LostPoolsRunOn,

    // Models with a draft head (§10, §15, §16, §17).
    /// Any one token is taken for the one that was given.
    VerifyAnyToken,
    /// A step of one token needs no room for drafts.
    StepsWithoutDrafts,
    /// A prompt needs no room for drafts.
    PromptsWithoutDrafts,
    /// A sequence takes one state slot.
    OneSlotEach,
    /// All drafts count, right or not.
    EveryDraftCounts,
    /// The state is taken up where it was before the step.
    StateStays,
    /// One token more or less is a decode step.
    OneTokenIsAStep,
    /// A generation gives no token more than it may.
    GenerationsAreCut,
    /// A token that ends a generation is looked for in the last place only.
    EndTokenIsLast,
    /// A generation goes on behind what waits.
    GenerationsQueueUp,
    /// END is applied with the first step of a generation.
    EndEndsTheStep,
    /// A generation that goes on is idle.
    GenerationsAreIdle,
    /// No room is made for the step after the next.
    NoRoomAhead,
    /// Room for the step after the next is made where nothing is chained.
    RoomAheadAlways,
    /// A generation without room for the step after the next is refused.
    RoomAheadOrNothing,
    /// A verify step whose results are lost leaves its state, though the next one was launched.
    LostAheadKeeps,
    /// A verify step whose results are lost loses its sequence.
    LostStepsLose,
}
