//! The words of the pictures and of the page, in both languages of the guide.

use crate::scenario::{Text, Verdict};

/// A language of the guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// As HTML names it.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Chinese => "zh-CN",
        }
    }

    /// The text in this language.
    #[must_use]
    pub fn of(self, text: &Text) -> &'static str {
        match self {
            Language::English => text.en,
            Language::Chinese => text.zh,
        }
    }
}

/// What a picture says besides what happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// The language of the legend and of the marks.
    pub language: Language,
    /// What the picture shows, for those who cannot see it.
    pub title: String,
}

impl Words {
    /// The words of a picture with this title.
    #[must_use]
    pub fn new(language: Language, title: &str) -> Words {
        let title = title.to_owned();
        Words { language, title }
    }

    pub(super) fn say(&self, word: Word) -> &'static str {
        word.in_language(self.language)
    }
}

macro_rules! words {
    ($($word:ident $en:literal $zh:literal)*) => {
        /// A word or sentence of the pictures and the page.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Word { $($word),* }

        impl Word {
            pub(super) fn in_language(self, language: Language) -> &'static str {
                let (en, zh) = match self { $(Word::$word => ($en, $zh)),* };
                match language {
                    Language::English => en,
                    Language::Chinese => zh,
                }
            }

            #[cfg(test)]
            fn all() -> Vec<Word> { vec![$(Word::$word),*] }
        }
    };
}

words! {
    // The legend.
    Believes "believes to hold (number: fencing token)" "自认为持有（数字为 fencing token）"
    BelievesPast "still believes, past what it was told" "超过被告知的期限仍自认为持有"
    ReallyHolds "really holds, says the server" "服务器认定的持有者"
    Lease "lease, as the client was told" "客户端被告知的租约"
    Waits "waits" "等待"
    TwoBelieve "two believe at once" "两个客户端同时自认为持有"
    Paused "paused" "暂停"
    Dead "not running" "未运行"
    LinkBroken "link broken" "网络中断"
    Killed "killed" "被杀死"
    Restarted "restarted" "重启"
    ClockMoved "clock moved" "时钟跳变"
    Lost "learns of the loss" "得知锁已丢失"
    Accepted "write accepted" "写入被接受"
    Refused "write refused" "写入被拒绝"
    Harm "harm: a stale write accepted" "危害：过期写入被接受"
    Call "question and answer" "请求与应答"
    Note "note" "说明"
    // The marks.
    WithData "restarted, data kept" "重启，数据保留"
    Emptied "restarted empty" "重启，数据丢失"
    Clock "clock" "时钟"
    Harmful "harm" "危害"
    RefusedShort "refused" "拒绝"
    LostShort "lost" "丢失"
    LeaseOver "lease over" "租约到期"
    Token "token" "token"
    FailedShort "failed" "失败"
    UnknownShort "outcome unknown" "结果未知"
    Calls "calls" "次请求"
    Writes "writes" "次写入"
    NoAnswer "no answer" "没有应答"
    Nothing "nothing happened" "什么也没有发生"
    LaneBelieves "believes to hold" "自认为持有"
    LaneHolds "who really holds" "实际持有者"
    LaneResource "resource: what it took" "资源：收到的写入"
    // The page.
    PageTitle "lockkeeper lab: what really happened" "lockkeeper 实验室：真实发生的一切"
    PageLead "Every part was played on real servers with real processes. The naive way must show its harm; the way out must not." "每一部分都在真实服务器和真实进程上运行。朴素做法必须显现危害；正确做法不得有危害。"
    Contents "Contents" "目录"
    Scenario "Scenario" "场景"
    Part "Part" "部分"
    Judged "Verdict" "结论"
    Took "Took" "耗时"
    Story "The story" "故事"
    WhatHappened "What happened" "发生了什么"
    Why "Why" "原因"
    Shows "Shows" "对应要求"
    History "History as lines of JSON" "历史记录（JSON 行）"
    Events "events" "个事件"
    AllAsTold "Every part showed what it is there for." "每一部分都如预期。"
    NotAsTold "parts did not show what they are there for." "个部分未如预期。"
    // The verdicts.
    HarmSeen "harm seen" "危害重现"
    HarmPrevented "harm prevented" "危害已防止"
    NotReproduced "NOT REPRODUCED" "未能重现"
    HarmDone "HARM DONE" "造成危害"
}

/// A verdict as people say it.
pub(super) fn verdict(verdict: Verdict) -> Word {
    match verdict {
        Verdict::HarmSeen => Word::HarmSeen,
        Verdict::HarmPrevented => Word::HarmPrevented,
        Verdict::NotReproduced => Word::NotReproduced,
        Verdict::HarmDone => Word::HarmDone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_there_in_both_languages() {
        for word in Word::all() {
            for language in [Language::English, Language::Chinese] {
                assert!(!word.in_language(language).is_empty(), "{word:?}");
            }
        }
        let all = [
            Verdict::HarmSeen,
            Verdict::HarmPrevented,
            Verdict::NotReproduced,
            Verdict::HarmDone,
        ];
        for each in all {
            assert_eq!(verdict(each).in_language(Language::English), each.words());
        }
    }
}
